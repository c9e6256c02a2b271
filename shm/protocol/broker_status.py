"""The document on a broker's board (`shm/board.py`): JSON, which the broker writes once a second.

Any session may write one, so a reader decodes it strictly: fields, types, lengths and counts are
those below. Texts in it may come from the network, with all their characters.

A broker lists at most so many groups, members and topics as fit. The counts are those of all.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

#: Characters of a text; longer ones are cut off.
MOST_TEXT: Final = 255
#: Entries of a list.
MOST_ENTRIES: Final = 1024
#: The steps in which times of puts are counted, ms.
PUT_LIMITS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_STEPS: Final = len(PUT_LIMITS_MS) + 1

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Rate = Annotated[float, Meta(ge=0, le=1e12)]
Text = Annotated[str, Meta(max_length=MOST_TEXT)]
_ENTRIES = Meta(max_length=MOST_ENTRIES)


class _Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the document."""


class Requests(_Part, frozen=True):
    """Requests of one kind, by RocketMQ's name. `per_second` is that of the last 10 s."""

    request: Text
    count: Count
    per_second: Rate


class RefusedRequests(_Part, frozen=True):
    """Requests of one kind that were answered with an error, by RocketMQ's names of both."""

    request: Text
    answer: Text
    count: Count


class ClosedConnections(_Part, frozen=True):
    """Connections that the broker has closed for a reason."""

    why: Text
    count: Count


class Member(_Part, frozen=True):
    """A member of a group: what it calls itself, and its address, HOST:PORT."""

    client_id: Text
    language: Text
    address: Text


class Group(_Part, frozen=True):
    """A consumer group with members at the broker. `model` is CLUSTERING or BROADCASTING."""

    group: Text
    model: Text
    member_count: Count
    members: Annotated[list[Member], _ENTRIES]
    topic_count: Count
    topics: Annotated[list[Text], _ENTRIES]


class ProducerGroup(_Part, frozen=True):
    """A group of producers, and how many connections they have."""

    group: Text
    connections: Count


class NameServer(_Part, frozen=True):
    """A name server of the broker's settings. `problem` says why it does not know the broker."""

    address: Text
    state: Literal["asked", "registered", "failed"]
    problem: Text


class BrokerStatus(_Part, frozen=True):
    """A broker, since its start. Times are milliseconds since 1970.

    `listens` is its address, `told` the one that clients are told. `messages_sent` counts messages
    that it has put into the store's ring, `messages_pulled` those in answers to pulls. `bytes_in`
    and `bytes_out` are those of its connections. `pulls_missed` counts pulls that found no message.
    The times of puts, milliseconds, are the longest, and the one that 99 of 100 puts of the running
    minute did not exceed. `put_ms_below` has how many puts took less than each of PUT_LIMITS_MS,
    and how many there were; `put_ms_sum` is the sum of their times.
    """

    name: Text
    cluster: Text
    pid: Count
    listens: Text
    told: Text
    started_ms: Count
    written_ms: Count
    connections: Count
    bytes_in: Count
    bytes_out: Count
    messages_sent: Count
    messages_pulled: Count
    held_pulls: Count
    requests: Annotated[list[Requests], _ENTRIES]
    refused: Annotated[list[RefusedRequests], _ENTRIES]
    closed: Annotated[list[ClosedConnections], _ENTRIES]
    group_count: Count
    groups: Annotated[list[Group], _ENTRIES]
    producer_group_count: Count
    producer_groups: Annotated[list[ProducerGroup], _ENTRIES]
    name_servers: Annotated[list[NameServer], _ENTRIES]
    pulls_found: Count
    pulls_missed: Count
    put_ms_99: Rate
    put_ms_longest: Count
    put_ms_sum: Count
    put_ms_below: Annotated[list[Count], Meta(min_length=_STEPS, max_length=_STEPS)]


_DECODER: Final = msgspec.json.Decoder(BrokerStatus)
_ENCODER: Final = msgspec.json.Encoder()


def encode(status: BrokerStatus) -> bytes:
    """The document."""
    return _ENCODER.encode(status)


def decode(document: bytes) -> BrokerStatus:
    """The status that a document holds. Raises ValueError, which names the wrong field."""
    try:
        return _DECODER.decode(document)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def text(value: str) -> str:
    """A text that fits into the document, cut off if it is long."""
    return value[:MOST_TEXT].encode("utf-8", "replace").decode()
