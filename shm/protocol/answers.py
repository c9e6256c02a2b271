"""What the registry answers to clients: `shm/protocol/requests.py` says which answers what.

These structs are the store's own words, so their fields are typed, and not bounded.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What the registry sends to a client. `id` is the request's; 0 answers whatever is asked."""

    id: int = 0


class Error(Answer, frozen=True, tag="error"):
    """The request was refused. `status` is the name of a PutMessageStatus, `why` one sentence."""

    status: str
    why: str


class RegistryRestarted(Answer, frozen=True, tag="registry restarted"):
    """A new registry serves this connection; it does not know what its predecessor was asked."""


class Done(Answer, frozen=True, tag="done"):
    """What was asked for is done, and there is nothing to say about it."""


class TransferLimits(Struct, frozen=True):
    """The limits of one read, as `store/reading/get_message.py` takes them."""

    memory_ratio: int
    bytes_in_memory: int
    count_in_memory: int
    bytes_on_disk: int
    count_on_disk: int
    batch: int


class Welcome(Answer, frozen=True, tag="welcome"):
    """A session and what a client must know of the store.

    `index` is the session's entry in the topic table, `capacity` the size of its ring in bytes, 0
    without one. `store_host` is in hexadecimal digits. `level` is an AckLevel. `index_entries` is 0
    when the store keeps no index.
    """

    session: int
    index: int
    capacity: int
    store: str
    store_host: str
    max_message_size: int
    level: int
    sync_flush_timeout_ms: int
    append_crc: bool
    producer_spin_us: int
    page_cache_busy_ms: int
    file_size_commit_log: int
    file_size_consume_queue: int
    index_slots: int
    index_entries: int
    transfer: TransferLimits


class Opened(Answer, frozen=True, tag="opened"):
    """A topic: its entry in the topic table, and the slots of its queues in the order of their
    ids.
    """

    index: int
    slots: tuple[int, ...]


class OpenedDelayed(Answer, frozen=True, tag="opened delayed"):
    """As `Opened`. `delayed` are the slots of the topic in which messages wait."""

    index: int
    slots: tuple[int, ...]
    delayed: tuple[int, ...]


class Deleted(Answer, frozen=True, tag="deleted"):
    """Whether there was such a topic."""

    deleted: bool


class TopicEntry(Struct, frozen=True):
    """One topic. `index` is its entry in the topic table, `perm` the sum of 2 (write), 4 (read)."""

    topic: str
    index: int
    perm: int
    write_queues: int
    read_queues: int
    order: bool


class TopicFound(Answer, frozen=True, tag="topic"):
    """The topic that was asked for."""

    topic: TopicEntry


class TopicsPage(Answer, frozen=True, tag="topics"):
    """Some topics. `next` is the `after` to ask for the next page with, -1 when there is none."""

    topics: list[TopicEntry]
    next: int


class Report(Answer, frozen=True, tag="report"):
    """What the start of the store found and did, by name."""

    report: dict[str, Any]


class SessionOpen(Answer, frozen=True, tag="is open"):
    """Whether the session exists: its client lives, or messages of it are not appended yet."""

    open: bool


class Joined(Answer, frozen=True, tag="joined"):
    """The session is a member. `retry_max_times` is how often a message comes back to the group."""

    retry_max_times: int


class Assigned(Answer, frozen=True, tag="assigned"):
    """The member has the ack file `number`, whose descriptors come along if it is a new one."""

    number: int


class Revoke(Answer, frozen=True, tag="revoke"):
    """The member must give these queues back, and say so in its next `Sync`."""

    revoke: list[tuple[str, int]]


class GroupsPage(Answer, frozen=True, tag="groups"):
    """How many members each group has; `more` says whether there are groups behind these."""

    groups: dict[str, int]
    more: bool


class GroupQueue(Struct, frozen=True, array_like=True):
    """Where a group is in a queue: `offset` is its next message, `end` the offset that the next
    message will get. `member` is the session that reads the queue, 0 when there is none.
    """

    topic: str
    queue_id: int
    offset: int
    end: int
    member: int


class GroupMember(Struct, frozen=True, array_like=True):
    """A member of a group: its session, how it reads, and how many queues it has."""

    session: int
    model: str
    instance: str
    queues: int


class GroupPage(Answer, frozen=True, tag="group"):
    """Some queues of a group, and its members; `more` says whether there are further queues."""

    queues: list[GroupQueue]
    members: list[GroupMember]
    more: bool


class ResetAnswer(Answer, frozen=True, tag="reset"):
    """With `wait`, nothing has happened yet: members must give queues back. Ask again."""

    wait: bool


AnyAnswer = (
    Error
    | RegistryRestarted
    | Done
    | Welcome
    | Opened
    | OpenedDelayed
    | Deleted
    | TopicFound
    | TopicsPage
    | Report
    | SessionOpen
    | Joined
    | Assigned
    | Revoke
    | GroupsPage
    | GroupPage
    | ResetAnswer
)
