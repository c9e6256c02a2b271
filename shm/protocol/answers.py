"""The registry's answers to clients. `shm/protocol/requests.py` lists the answer to each request.

Answers come from the store itself, so their fields have types but no bounds.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .answer import Answer
from .pop_answers import Looked, Modes, Popped, Settled


class Error(Answer, frozen=True, tag="error"):
    """The request was refused. `status` is the name of a PutMessageStatus, `why` one sentence."""

    status: str
    why: str


class RegistryRestarted(Answer, frozen=True, tag="registry restarted"):
    """A new registry serves this connection. It does not know the client's pending request."""


class Done(Answer, frozen=True, tag="done"):
    """The request is done. The answer has no values."""


class BellMade(Answer, frozen=True, tag="bell made"):
    """The session's bell, whose descriptors come along."""


class BoardMade(Answer, frozen=True, tag="board made"):
    """The session's board, whose descriptor comes along."""


class BoardFound(Answer, frozen=True, tag="board found"):
    """The board of the session with this number, whose client is user `uid`. A read-only descriptor
    comes along. With session 0 there is none: no further session has a board.
    """

    session: int
    uid: int


class MetricsFound(Answer, frozen=True, tag="metrics found"):
    """The metrics page and the history, whose read-only descriptor comes along."""


class Changing(Answer, frozen=True, tag="changing"):
    """A change of the store's processes begins, or waits for another one. The socket comes along at
    which the supervisor says how it goes on.
    """


class ReadsMade(Answer, frozen=True, tag="reads made"):
    """The session's page of reads, whose descriptor comes along."""


class TransferLimits(Struct, frozen=True):
    """The limits of one read, as `store/reading/get_message.py` takes them."""

    memory_ratio: int
    bytes_in_memory: int
    count_in_memory: int
    bytes_on_disk: int
    count_on_disk: int
    batch: int


class Welcome(Answer, frozen=True, tag="welcome"):
    """A new session, and the settings of the store that a client needs.

    `index` is the session's entry in the topic table, `capacity` the size of its ring in bytes, 0
    without one. `store_host` is in hexadecimal digits. `level` is an AckLevel. `light` says whether
    messages may be put into light queues. `index_entries` is 0 when the store keeps no index.
    `delay_levels` is the number of delay levels.
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
    light: bool
    producer_spin_us: int
    page_cache_busy_ms: int
    heartbeat_timeout_ms: int
    file_size_commit_log: int
    file_size_consume_queue: int
    delay_levels: int
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
    """`Opened`, and in `delayed` the slots of the topic of delayed messages."""

    index: int
    slots: tuple[int, ...]
    delayed: tuple[int, ...]


class OpenedTransaction(Answer, frozen=True, tag="opened transact"):
    """`Opened`, without index and slots if no topic was named. `half` and `decisions` are the slots
    of the topics of half messages and of decisions.
    """

    index: int
    slots: tuple[int, ...]
    half: tuple[int, ...]
    decisions: tuple[int, ...]


class OpenedReplies(Answer, frozen=True, tag="opened replies"):
    """The slots of the topic of replies, and the cluster whose topic of replies the store has, for
    repliers that are clients of RocketMQ's.
    """

    slots: tuple[int, ...]
    cluster: str


class Deleted(Answer, frozen=True, tag="deleted"):
    """Whether the topic existed."""

    deleted: bool


class Version(Struct, frozen=True):
    """The version of a file of config/ (RocketMQ's DataVersion); `timestamp` is in epoch ms."""

    counter: int
    state_version: int
    timestamp: int


class TopicEntry(Struct, frozen=True):
    """One topic. `index` is its entry in the topic table, `perm` the sum of 2 (write), 4 (read).
    The last three are RocketMQ's, and mean nothing to the store.
    """

    topic: str
    index: int
    perm: int
    write_queues: int
    read_queues: int
    order: bool
    filter_type: str
    sys_flag: int
    attributes: dict[str, str]


class TopicFound(Answer, frozen=True, tag="topic"):
    """The topic that was asked for."""

    topic: TopicEntry


class TopicsPage(Answer, frozen=True, tag="topics"):
    """One page of topics. `next` is the `after` of the request for the next page, -1 at the end.
    `version` is that of config/topics.json.
    """

    topics: list[TopicEntry]
    next: int
    version: Version


class Report(Answer, frozen=True, tag="report"):
    """What the start of the store found and did, by name."""

    report: dict[str, Any]


class SessionOpen(Answer, frozen=True, tag="is open"):
    """Whether the session exists: its client is connected, or its messages are not all appended."""

    open: bool


class Joined(Answer, frozen=True, tag="joined"):
    """The session is a member. `retry_max_times` bounds how often a message is consumed again."""

    retry_max_times: int


class Assigned(Answer, frozen=True, tag="assigned"):
    """The member has the ack file `number`, whose descriptors come along if it is a new one."""

    number: int


class Revoke(Answer, frozen=True, tag="revoke"):
    """The member must give these queues back, and confirm it in its next `Sync`."""

    revoke: list[tuple[str, int]]


class GroupsPage(Answer, frozen=True, tag="groups"):
    """One page of groups with the number of their members. `more`: whether another page follows."""

    groups: dict[str, int]
    more: bool


class GroupQueue(Struct, frozen=True, array_like=True):
    """A group's progress in a queue: `offset` is the next message that it reads, `end` the queue's
    `max_offset`. `member` is the number of the session that reads the queue, 0 if there is none.
    """

    topic: str
    queue_id: int
    offset: int
    end: int
    member: int


class GroupMember(Struct, frozen=True, array_like=True):
    """A member of a group: its session's number, its model (clustering, broadcasting, network, or
    pop), and how many queues it has. A member on the network has the session of its broker, and its
    client id as `instance`.
    """

    session: int
    model: str
    instance: str
    queues: int


class GroupPage(Answer, frozen=True, tag="group"):
    """Some queues of a group, and its members; `more` says whether there are further queues.
    Members that pop have `leased` messages, the oldest lease since `oldest_ms` (0: none).
    """

    queues: list[GroupQueue]
    members: list[GroupMember]
    more: bool
    leased: int
    oldest_ms: int


class ResetAnswer(Answer, frozen=True, tag="reset"):
    """Without `wait`, the offsets are set. With `wait`, members must give queues back first: the
    client repeats its request.
    """

    wait: bool


class GroupSettings(Answer, frozen=True, tag="group settings"):
    """The settings of a group, under their names in RocketMQ. `known` is false for a group that
    does not exist, and was not to be made; the other values are then RocketMQ's defaults. The group
    may not read the topics in `forbidden`.
    """

    known: bool
    consume_enable: bool
    consume_broadcast_enable: bool
    notify_consumer_ids_changed_enable: bool
    retry_max_times: int
    retry_queue_nums: int
    forbidden: list[str]


class GroupConfigsPage(Answer, frozen=True, tag="group configs"):
    """The settings of some groups, each as it stands in RocketMQ's file, and what that file forbids
    them; `version` is that of config/subscriptionGroup.json. `more`: whether another page follows.
    """

    configs: dict[str, dict[str, Any]]
    forbidden: dict[str, dict[str, int]]
    version: Version
    more: bool


class KeptFile(Answer, frozen=True, tag="kept"):
    """The session's ack file for a group is the one with this `number`. Its descriptors come along
    unless the session has it. The file says which offsets were set (`About.resets`).
    """

    number: int


class Sides(Answer, frozen=True, tag="sides"):
    """How a group is divided between members that are clients of the store and members on the
    network. `mixed`: there are members of the first kind; without them the rest says nothing.

    `number` is that of the session's ack file for the group, 0 if there is none. `clients` are the
    client ids of all members of both kinds. The members on the network have the queues `has`, and
    are to give back those in `revoked`.
    """

    number: int
    mixed: bool
    clients: list[str]
    has: list[tuple[str, int]]
    revoked: list[tuple[str, int]]


class ProgressFound(Answer, frozen=True, tag="progress"):
    """By queue id, the queue offset of the first message that the group has not consumed. Queues
    that it has not begun are missing.
    """

    offsets: dict[int, int]


class OffsetsPage(Answer, frozen=True, tag="offsets"):
    """How far some groups are: by group, then by topic, then by queue id. `more`: whether another
    page follows.
    """

    offsets: dict[str, dict[str, dict[int, int]]]
    more: bool


class ReadersFound(Answer, frozen=True, tag="readers"):
    """The names of the groups that have begun in the topic, sorted."""

    groups: list[str]


class SettingsFound(Answer, frozen=True, tag="settings"):
    """The store's settings as RocketMQ writes them, by its names, or ours where it has none."""

    settings: dict[str, str]


class UserFound(Struct, frozen=True):
    """What a user has: sessions, bytes of rings and bytes in them that are not answered, and the
    topics and groups that it has made.
    """

    uid: int
    sessions: int
    ring_bytes: int
    in_flight_bytes: int
    topics: int
    groups: int


class UsersFound(Answer, frozen=True, tag="users"):
    """What each user has, by uid."""

    users: list[UserFound]


OpenAnswer = Opened | OpenedDelayed | OpenedTransaction | OpenedReplies
BoardAnswer = BoardMade | BoardFound | MetricsFound | ReadsMade
AnyAnswer = (
    Error
    | RegistryRestarted
    | Done
    | BellMade
    | BoardAnswer
    | Changing
    | Welcome
    | OpenAnswer
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
    | GroupSettings
    | GroupConfigsPage
    | KeptFile
    | Sides
    | ProgressFound
    | Popped
    | Settled
    | Looked
    | Modes
    | OffsetsPage
    | ReadersFound
    | SettingsFound
    | UsersFound
)
