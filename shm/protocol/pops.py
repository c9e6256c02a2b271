"""Clients' requests about messages that are popped, which means leased for a while.

`requests.py` lists them with the others.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from .answers import Done
from .pop_answers import (
    Looked,
    Modes,
    Popped,
    Settled,
)
from .request import Index, Name, Number, Request

#: Messages that one request pops at most, and leases that one settles.
MOST_POPPED: Final = 1024
MOST_SETTLED: Final = 4096
#: A lease ends after so long (ms) at the latest: a year.
MOST_INVISIBLE_MS: Final = 366 * 86_400_000


class Settling(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What has become of messages of one lease. `first` and `popped_ms` name the lease, bit n of
    `mask` stands for the message at queue offset `first` + n.

    With `after_ms` -1 they are acknowledged. Otherwise they are handed out again after so long, at
    once with -2. That hand-out of them does not count then: no consumer has seen them.
    """

    topic: Name
    queue_id: Index
    first: Number
    popped_ms: Number
    mask: Annotated[int, Meta(ge=1, le=2**32 - 1)]
    after_ms: Annotated[int, Meta(ge=-2, le=MOST_INVISIBLE_MS)] = -1


Settlings = Annotated[list[Settling], Meta(max_length=MOST_SETTLED)]


class Pop(Request[Popped], frozen=True, tag="pop"):
    """Asks for up to `most` messages of a topic, from one of its queues, or from any with -1. Only
    this group's next pop after `invisible_ms` gets them again, unless they are settled before.

    `start` is where a group begins in a topic that is new to it. With `single` there is at most one
    lease of each queue. With `in_order` nothing comes of a queue of which something is leased,
    except by a request with the same `attempt`: it gets the same again. `attempt` is a number of
    the client's choice, 0 for none. With `wait` the session gets a notice when a lease ends, if
    nothing was found now. `settled` comes before all that.
    """

    group: Name
    topic: Name
    queue_id: Annotated[int, Meta(ge=-1, le=2**31 - 1)]
    most: Annotated[int, Meta(ge=1, le=MOST_POPPED)]
    invisible_ms: Annotated[int, Meta(ge=1, le=MOST_INVISIBLE_MS)]
    start: Literal["earliest", "latest"] = "latest"
    single: bool = False
    in_order: bool = False
    attempt: Number = 0
    wait: bool = False
    settled: Settlings = msgspec.field(default_factory=list)


class Settle(Request[Settled], frozen=True, tag="settle"):
    """Says what has become of leased messages."""

    group: Name
    settled: Settlings


class Look(Request[Looked], frozen=True, tag="look"):
    """Asks what such a pop would find, and pops nothing. With a `start` the group begins in the
    topic, if it is new to it.
    """

    group: Name
    topic: Name
    queue_id: Annotated[int, Meta(ge=-1, le=2**31 - 1)]
    wait: bool = False
    in_order: bool = False
    start: Literal["earliest", "latest"] | None = None


class SetMode(Request[Done], frozen=True, tag="set mode"):
    """Sets whether the consumers of a group pull or pop a topic, if they ask a broker. `share` is
    RocketMQ's popShareQueueNum.
    """

    topic: Name
    group: Name
    mode: Literal["PULL", "POP"]
    share: Index = 0


class AskModes(Request[Modes], frozen=True, tag="modes"):
    """Asks for all modes that were set."""


PopRequest = Pop | Settle | Look | SetMode | AskModes
