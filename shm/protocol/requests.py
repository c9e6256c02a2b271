"""The protocol on a store's socket: clients' requests to the registry, and the answers to them.

A message is JSON, in one packet (`shm/mail.py`) or in several (`shm/parts.py`). The field `do`
names a request, the field `kind` an answer. The client numbers its requests with `id`, and the
answer repeats that number. When the registry was replaced, a client repeats its request, and may
get two answers to it. So every request is idempotent.

=============  ====================================================  ==================
request        asks for                                              answer
=============  ====================================================  ==================
hello          a session, with or without a ring; comes first        welcome
open           a topic's queues, and the right to write to it        opened
open delayed   the same, to send messages that are delivered later   opened delayed
open transact  the same, to send halves of transactions and decide   opened transact
open retry     the retry topic of a group, or its dead-letter topic  opened
open replies   the topic of replies, and the name of the cluster     opened replies
create         a topic                                               done
alter          other numbers of queues, or permissions, of a topic   done
delete         the end of a topic                                    deleted
topic          everything about one topic                            topic
topics         one page of all topics                                topics
watch          to be woken when one of these queues grows            done
bell           the session's bell, made at the first request         bell made
lease          that clean spares a commit-log file for a while       done
clean          that expired files are removed now                    done
report         what the start of the store found                     report
is open        whether a session still exists                        is open
join           membership of a consumer group                        joined
sync           the queues that a member has now                      assigned, revoke
busy           patience, because a member works and cannot sync yet  done
groups         one page of all consumer groups                       groups
group          one page of a group's progress, and its members       group
reset          other offsets for a group                             reset
delete group   the end of a group without members                    done
open group     the settings of a group, which may be made            group settings
set group      other settings of a group, which is made if missing   group settings
forbid         that a group may not read a topic, or may again         group settings
group configs  one page of the settings of all groups, whole         group configs
keep           to keep a group's progress in some queues             kept
release        the end of that                                       done
remote         the queues of a group's members on the network        sides
progress       a group's progress in one topic                       progress
pop            messages of a topic, leased for a while               popped
settle         acknowledgements of leased messages, or other times   settled
look           whether a pop would find messages                     looked
set mode       whether a group pulls or pops a topic                 done
modes          how groups read topics, as far as it was set          modes
offsets        one page of all groups' progress in all topics        offsets
readers        the groups that have begun in a topic                 readers
settings       the store's settings                                  settings
board          the session's board, made at the first request        board made
next board     the board of the next session that has one            board found
metrics        the metrics page and the history                      metrics found
reads          a page on which the session counts its reads          reads made
users          what each user has: sessions, rings, topics, groups   users
change         another process, or new code, in the running store    changing
=============  ====================================================  ==================

Instead of these answers there may be an `error`. One message answers no request:
`registry restarted` tells each client to repeat its pending request.

Descriptors come with seven answers. `welcome` brings those of the control block and of the topic
table, and for a session with a ring those of the ring and of append's eventfd. `bell made` brings
the bell page and the client's socket (`shm/bell.py`). `assigned` and `kept` bring the two of an ack
file (`store/groups/ack_file.py`), or none when the client has that file already. `board made` and
`board found` bring that of a board (`shm/board.py`), for writing and for reading. `changing` brings
a socket.

Requests come from outside, so their fields have bounds, and the registry acts only on a packet that
could be decoded into one of these structs. For some numbers and names the registry has narrower
bounds of its own, because its error messages say more about what is allowed.

PROTOCOL changes when a message gets another meaning, or another name, type or set of fields. A
client of another version must get an answer that it can read. Therefore two things stay the same
in all versions: the field `protocol` of `hello`, and the fields `status` and `why` of `error`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from .admin_requests import AskBoard, AskGroupConfigs, AskOffsets, AskReaders, AskSettings, Forbid
from .answers import (
    Assigned,
    BellMade,
    Deleted,
    Done,
    GroupPage,
    GroupSettings,
    GroupsPage,
    Joined,
    KeptFile,
    Opened,
    OpenedDelayed,
    OpenedReplies,
    OpenedTransaction,
    ProgressFound,
    Report,
    ResetAnswer,
    Revoke,
    SessionOpen,
    Sides,
    TopicFound,
    TopicsPage,
    Welcome,
)
from .changes import Change
from .figure_requests import AskMetrics, AskReads, AskUsers, FindBoard
from .pops import PopRequest
from .request import AnyNumber, Attributes, Index, Name, Number, Request

PROTOCOL: Final = 2
#: Client ids of one group, and its topics.
MOST_CLIENTS = 10_000
Queue = tuple[Name, Index]
Dropped = Annotated[list[Name], Meta(max_length=64)]
#: The language of a filter, and its expression (`store/filters`).
Filter = tuple[Literal["TAG", "SQL92"], Annotated[str, Meta(max_length=65536)]]


class Hello(Request[Welcome], frozen=True, forbid_unknown_fields=False, tag="hello"):
    """Begins a session, with a ring of `ring_size` bytes. 0 is no ring, and a negative number is
    the setting `ring_size`.
    """

    protocol: int
    ring_size: AnyNumber = 0


class Open(Request[Opened], frozen=True, tag="open"):
    """Asks for the queues of a topic. With `write` the session gets a grant for it, and the
    registry makes a missing topic if the settings allow that.
    """

    topic: Name
    write: bool


class OpenDelayed(Request[OpenedDelayed], frozen=True, tag="open delayed"):
    """`Open` with `write`. The session also gets a grant for the topic of timers (`timer`), or for
    that of the delay levels.
    """

    topic: Name
    timer: bool


class OpenTransaction(Request[OpenedTransaction], frozen=True, tag="open transact"):
    """`Open` with `write`, unless `topic` is empty. The session also gets grants for the half
    messages of transactions and for the decisions about them.
    """

    topic: Name


class OpenRetry(Request[Opened], frozen=True, tag="open retry"):
    """Opens the retry topic of a group for writing, or with `dead` its dead-letter topic."""

    group: Name
    dead: bool


class OpenReplies(Request[OpenedReplies], frozen=True, tag="open replies"):
    """Opens the topic of replies for writing, and asks for the cluster that requests name."""


class Create(Request[Done], frozen=True, tag="create"):
    """Makes a topic with `queues` queues; 0 stands for `default_topic_queue_nums`."""

    topic: Name
    queues: AnyNumber


class Alter(Request[Done], frozen=True, tag="alter"):
    """Makes or changes a topic. None keeps a value, or is the default in a new topic. Attributes
    are set and dropped by name; others stay.
    """

    topic: Name
    read_queues: AnyNumber | None = None
    write_queues: AnyNumber | None = None
    perm: AnyNumber | None = None
    order: bool | None = None
    filter_type: Literal["SINGLE_TAG", "MULTI_TAG"] | None = None
    sys_flag: Index | None = None
    set_attributes: Attributes = msgspec.field(default_factory=dict)
    drop_attributes: Dropped = msgspec.field(default_factory=list)


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
    """Asks reput to wake the client, which will sleep on the arrival words of these queue slots."""

    slots: list[Index]


class AskBell(Request[BellMade], frozen=True, tag="bell"):
    """Asks for the session's bell. A second request gets the same one. After a restart of the
    registry it gets a new one, and the old one hangs up.
    """


class Lease(Request[Done], frozen=True, tag="lease"):
    """Sets the session's lease: clean keeps the commit-log file that holds `offset`, and later
    files, for a while. None ends the lease.
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

    `offsets` (topic -> queue id -> offset) come with "time". In queues that they name they have
    precedence over `at`.
    """

    at: Literal["earliest", "latest", "time"] = msgspec.field(name="from")
    offsets: dict[Name, dict[Index, Number]] = msgspec.field(default_factory=dict)


class Join(Request[Joined], frozen=True, tag="join"):
    """Makes the session a member of a group. `instance` names a broadcasting member, so that its
    progress is kept for the next member of that name.
    """

    group: Name
    model: Name
    filters: dict[Name, Filter]
    start: Start
    instance: Name = ""


class Sync(Request[Assigned | Revoke], frozen=True, tag="sync"):
    """Asks for the member's queues. `have` is the number of its ack file, 0 if it has none.
    `released` are the queues that it has given back since it got that file.
    """

    have: Number
    released: list[Queue]


class Busy(Request[Done], frozen=True, tag="busy"):
    """Says that the member's process runs, but cannot answer a notice with `Sync` yet."""


class AskGroups(Request[GroupsPage], frozen=True, tag="groups"):
    """Asks for groups whose names come after `after`."""

    after: Name


class AskGroup(Request[GroupPage], frozen=True, tag="group"):
    """Asks for a group's queues behind the first `after`, by topic and queue id."""

    group: Name
    after: Index


class Reset(Request[ResetAnswer], frozen=True, tag="reset"):
    """Sets a group's offsets (queue id -> offset) in a topic."""

    group: Name
    topic: Name
    offsets: Annotated[dict[Index, Number], Meta(min_length=1)]


class DeleteGroup(Request[Done], frozen=True, tag="delete group"):
    """Deletes the settings of a group that has no members, and its offsets unless they are kept."""

    group: Name
    keep_offsets: bool = False


class OpenGroup(Request[GroupSettings], frozen=True, tag="open group"):
    """Asks for the settings of a group. With `make` a new group gets RocketMQ's defaults."""

    group: Name
    make: bool


class SetGroup(Request[GroupSettings], frozen=True, tag="set group"):
    """Makes or changes a group. None keeps a value, or is RocketMQ's default in a new group.
    Attributes are set and dropped by name; others stay.
    """

    group: Name
    consume_enable: bool | None = None
    consume_broadcast_enable: bool | None = None
    notify_consumer_ids_changed_enable: bool | None = None
    retry_max_times: AnyNumber | None = None
    retry_queue_nums: AnyNumber | None = None
    broker_id: Index | None = None
    consume_from_min_enable: bool | None = None
    consume_message_orderly: bool | None = None
    consume_timeout_minute: Index | None = None
    group_sys_flag: Index | None = None
    which_broker_when_consume_slowly: Index | None = None
    set_attributes: Attributes = msgspec.field(default_factory=dict)
    drop_attributes: Dropped = msgspec.field(default_factory=list)


class Keep(Request[KeptFile], frozen=True, tag="keep"):
    """Says that the session keeps the progress of a group's members that are no clients of the
    store. `queues` (topic -> queue id -> offset) are added to those that it keeps already; their
    offsets count in queues that are new to the group. `have` is the number of its ack file for the
    group, 0 if it has none.
    """

    group: Name
    queues: dict[Name, dict[Index, Number]]
    have: Number


class Release(Request[Done], frozen=True, tag="release"):
    """Ends what `keep` began, for one group."""

    group: Name


class Remote(Request[Sides], frozen=True, tag="remote"):
    """Says who reads as part of a group without being a client of the store: the client ids of
    clustering members of the session's network, and the topics to which one of them subscribes.
    `released` are queues that these members have given back, each with the queue offset of the
    first message that they have read there; -1 if it is not known.
    """

    group: Name
    clients: Annotated[list[Name], Meta(max_length=MOST_CLIENTS)]
    topics: Annotated[list[Name], Meta(max_length=MOST_CLIENTS)]
    released: Annotated[list[tuple[Name, Index, AnyNumber]], Meta(max_length=65536)] = (
        msgspec.field(default_factory=list)
    )


class AskProgress(Request[ProgressFound], frozen=True, tag="progress"):
    """Asks how far a group is in the queues of a topic."""

    group: Name
    topic: Name


OpenRequest = Open | OpenDelayed | OpenTransaction | OpenRetry | OpenReplies
TopicRequest = OpenRequest | Create | Alter | Delete | AskTopic | AskTopics
GroupRequest = Join | Sync | Busy | AskGroups | AskGroup | Reset | DeleteGroup
SettingsRequest = OpenGroup | SetGroup | Forbid | AskGroupConfigs
KeptRequest = SettingsRequest | Keep | Release | Remote | AskProgress | AskOffsets | AskReaders
SessionRequest = (
    Watch | AskBell | Lease | Clean | AskReport | AskSettings | AskUsers | IsOpen | Change
)
BoardRequest = AskBoard | FindBoard | AskMetrics | AskReads
AnyRequest = (
    Hello | TopicRequest | GroupRequest | KeptRequest | PopRequest | SessionRequest | BoardRequest
)


class _Numbered(Struct):
    id: Number = 0


def id_of(packet: bytes) -> int:
    """The `id` in a packet that could not be decoded as a request; 0 if it has none."""
    try:
        return msgspec.json.decode(packet, type=_Numbered).id
    except (ValueError, RecursionError):
        return 0
