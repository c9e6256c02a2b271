"""The protocol on a store's socket: what a client asks of the registry, and which answer it gets.

One packet (`shm/mail.py`) holds one message as JSON. A request says in `do` which one it is, an
answer in `kind`. The client numbers its requests with `id`, and the answer repeats that number: a
client asks again when the registry was replaced, and may then get two answers to one request.
Hence every request can be repeated without harm.

=============  ====================================================  ==================
request        what it asks for                                      answer
=============  ====================================================  ==================
hello          a session, with or without a ring; comes first        welcome
open           a topic's queues, and the right to write to it        opened
open delayed   the same, to send messages that are delivered later   opened delayed
open retry     the retry topic of a group, or its dead-letter topic  opened
create         a topic                                               done
alter          other numbers of queues, or permissions, of a topic   done
delete         the end of a topic                                    deleted
topic          everything about one topic                            topic
topics         one page of all topics                                topics
watch          to be woken when one of these queues grows            done
lease          that clean spares a commit-log file for a while       done
clean          that expired files are removed now                    done
report         what the start of the store found                     report
is open        whether a session still exists                        is open
join           membership of a consumer group                        joined
sync           the queues that a member has now                      assigned, revoke
groups         one page of all consumer groups                       groups
group          one page of a group's progress, and its members       group
reset          other offsets for a group                             reset
delete group   the end of a group without members                    done
=============  ====================================================  ==================

Instead of these answers there may be an `error`. The registry sends one message that nobody asked
for: a `registry restarted` tells each client to repeat the request that it waits for.

Descriptors come with two answers. `welcome` brings those of the control block and of the topic
table, and for a session with a ring those of the ring and of its bell. `assigned` brings the two
of an ack file (`store/groups/ack_file.py`), or none when the client has that file already.

Requests come from outside, so their fields are bounded: the registry acts on a request only after
it has become one of these structs. Some numbers and names are wider here than what the registry
takes, because the registry explains better than a bound could what is allowed.

PROTOCOL changes when a message gets another meaning, or another name, type or set of fields. A
client of another version must get an answer that it can read. Therefore two things stay the same
in all versions: the field `protocol` of `hello`, and the fields `status` and `why` of `error`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from .answers import (
    Answer,
    Assigned,
    Deleted,
    Done,
    GroupPage,
    GroupsPage,
    Joined,
    Opened,
    OpenedDelayed,
    Report,
    ResetAnswer,
    Revoke,
    SessionOpen,
    TopicFound,
    TopicsPage,
    Welcome,
)

PROTOCOL: Final = 2

#: Numbers of sessions and ack files, and offsets: of messages in queues, of bytes in the log.
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: What counts or indexes entries of a table in memory.
Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]
#: A number of which the registry says itself what is allowed.
AnyNumber = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: A name of a topic, group or instance, before `store/names.py` has judged it.
Name = Annotated[str, Meta(max_length=1024)]
Queue = tuple[Name, Index]
#: How a filter is written, and its expression (`store/filters/tags.py`).
Filter = tuple[Literal["TAG", "SQL92"], str]

Answered = TypeVar("Answered", bound=Answer)


class Request(
    Struct,
    Generic[Answered],
    frozen=True,
    kw_only=True,
    tag_field="do",
    forbid_unknown_fields=True,
):
    """What a client asks. Each request names its answer in brackets. Sending it sets `id`."""

    id: Number = 0


def answer_of(request: type[Request[Answered]]) -> type[Answered]:
    """The struct, or the union of structs, that answers a request."""
    bases: tuple[Any, ...] = request.__dict__["__orig_bases__"]
    answer: type[Answered] = get_args(bases[0])[0]
    return answer


class Hello(Request[Welcome], frozen=True, forbid_unknown_fields=False, tag="hello"):
    """Begins a session: with a ring of `ring_size` bytes, without a ring (0), or with one of the
    size that the settings say (negative).
    """

    protocol: int
    ring_size: AnyNumber = 0


class Open(Request[Opened], frozen=True, tag="open"):
    """The queues of a topic. With `write` the session may write to it, and the registry makes it if
    the settings allow that.
    """

    topic: Name
    write: bool


class OpenDelayed(Request[OpenedDelayed], frozen=True, tag="open delayed"):
    """As `Open` with `write`. The session may also write to the topic in which messages wait: until
    a time (`timer`), or for one of the delay levels.
    """

    topic: Name
    timer: bool


class OpenRetry(Request[Opened], frozen=True, tag="open retry"):
    """Opens the retry topic of a group for writing, or with `dead` its dead-letter topic."""

    group: Name
    dead: bool


class Create(Request[Done], frozen=True, tag="create"):
    """Makes a topic with `queues` queues; 0: as many as the settings say."""

    topic: Name
    queues: AnyNumber


class Alter(Request[Done], frozen=True, tag="alter"):
    """Makes or changes a topic. What is None stays as it is, or is the default."""

    topic: Name
    read_queues: AnyNumber | None = None
    write_queues: AnyNumber | None = None
    perm: AnyNumber | None = None
    order: bool | None = None


class Delete(Request[Deleted], frozen=True, tag="delete"):
    """Deletes a topic with its queues."""

    topic: Name


class AskTopic(Request[TopicFound], frozen=True, tag="topic"):
    """Asks for one topic."""

    topic: Name


class AskTopics(Request[TopicsPage], frozen=True, tag="topics"):
    """Asks for topics from entry `after` of the topic table on."""

    after: Index


class Watch(Request[Done], frozen=True, tag="watch"):
    """The client will sleep until one of the queues with these slots grows."""

    slots: list[Index]


class Lease(Request[Done], frozen=True, tag="lease"):
    """The client reads the commit-log file that holds `offset`, and none that is older. None: it
    reads no file that clean could remove.
    """

    offset: Number | None


class Clean(Request[Done], frozen=True, tag="clean"):
    """Removes expired files now, whatever the hour."""


class AskReport(Request[Report], frozen=True, tag="report"):
    """Asks what the start of the store found."""


class IsOpen(Request[SessionOpen], frozen=True, tag="is open"):
    """Asks whether the session with this number exists."""

    session: Number


class Start(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a group begins in a topic that is new to it.

    `offsets` (topic -> queue id -> offset) go with "time", and count before the word.
    """

    at: Literal["earliest", "latest", "time"] = msgspec.field(name="from")
    offsets: dict[Name, dict[Index, Number]] = msgspec.field(default_factory=dict)


class Join(Request[Joined], frozen=True, tag="join"):
    """Makes the session a member of a group. `instance` names a broadcasting member whose progress
    is to outlive it.
    """

    group: Name
    model: Name
    filters: dict[Name, Filter]
    start: Start
    instance: Name = ""


class Sync(Request[Assigned | Revoke], frozen=True, tag="sync"):
    """Asks for the member's queues. `have` is the number of its ack file, 0 when it has none;
    `released` are the queues that it has given back since it got that file.
    """

    have: Number
    released: list[Queue]


class AskGroups(Request[GroupsPage], frozen=True, tag="groups"):
    """Asks for groups whose names come after `after`."""

    after: Name


class AskGroup(Request[GroupPage], frozen=True, tag="group"):
    """Asks for a group's queues behind the first `after`, by topic and queue id."""

    group: Name
    after: Index


class Reset(Request[ResetAnswer], frozen=True, tag="reset"):
    """Puts a group at other offsets (queue id -> offset) of a topic."""

    group: Name
    topic: Name
    offsets: Annotated[dict[Index, Number], Meta(min_length=1)]


class DeleteGroup(Request[Done], frozen=True, tag="delete group"):
    """Forgets a group that has no members."""

    group: Name


TopicRequest = Open | OpenDelayed | OpenRetry | Create | Alter | Delete | AskTopic | AskTopics
GroupRequest = Join | Sync | AskGroups | AskGroup | Reset | DeleteGroup
SessionRequest = Watch | Lease | Clean | AskReport | IsOpen
AnyRequest = Hello | TopicRequest | GroupRequest | SessionRequest


class _Numbered(Struct):
    id: Number = 0


def id_of(packet: bytes) -> int:
    """The `id` in a packet that is not a request otherwise; 0 when the packet has none."""
    try:
        return msgspec.json.decode(packet, type=_Numbered).id
    except (ValueError, RecursionError):
        return 0
