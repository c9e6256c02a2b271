"""What producers know of the messages they sent: the one side of every check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from silomq import SendResult

#: Producer and sequence number.
Key = tuple[int, int]


class Begun(NamedTuple):
    """A message that was given to a producer, and the queue that it was given for. `kind` is the
    name of what it holds (support/load/messages.py); empty: `body_of`, and the caller checks the
    rest.
    """

    producer: int
    sequence: int
    topic: str
    queue_id: int
    kind: str = ""

    @property
    def key(self) -> Key:
        return self.producer, self.sequence


class Ack(NamedTuple):
    """One acknowledged message: whose it is, and what the store answered."""

    producer: int
    sequence: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp: int
    message_id: str
    offset_message_id: str

    @property
    def key(self) -> Key:
        return self.producer, self.sequence


def acks_of(result: SendResult, producer: int, sequences: Sequence[int]) -> list[Ack]:
    """The answer to one message or one batch, message by message."""
    ids, places = result.message_ids, result.offset_message_id.split(",")
    assert result.status.name == "PUT_OK", result
    assert len(ids) == len(places) == len(sequences) == result.count, result
    assert int(places[0][-16:], 16) == result.physical_offset
    return [
        Ack(
            producer,
            sequence,
            result.topic,
            result.queue_id,
            result.queue_offset + i,
            int(places[i][-16:], 16),
            result.store_timestamp,
            ids[i],
            places[i],
        )
        for i, sequence in enumerate(sequences)
    ]


@dataclass
class Sent:
    """What producers know. Every message is begun; then it was acknowledged, or it was published
    one-way and nothing was asked, or it was refused, or its fate is unknown.
    """

    begun: list[Begun] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    oneway: list[Key] = field(default_factory=list)
    refused: list[Key] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def begin(self, begun: Begun) -> None:
        """To be called before the message is given to the store."""
        self.begun.append(begun)

    def acknowledge(self, result: SendResult, producer: int, sequences: Sequence[int]) -> None:
        """Takes in the answer to messages that were begun."""
        self.acks += acks_of(result, producer, sequences)

    def answered(self, result: SendResult, producer: int, sequence: int) -> None:
        """A message that a test sent by hand, with `body_of`, and the answer to it."""
        self.begin(Begun(producer, sequence, result.topic, result.queue_id))
        self.acknowledge(result, producer, [sequence])

    def published(self, producer: int, sequence: int, topic: str, queue_id: int) -> None:
        """A message that a test sent one-way by hand, with `body_of`."""
        self.begin(Begun(producer, sequence, topic, queue_id))
        self.oneway.append((producer, sequence))

    def refuse(self, producer: int, sequence: int, topic: str, queue_id: int) -> None:
        """A message that a test sent by hand, with `body_of`, and that the store refused."""
        self.begin(Begun(producer, sequence, topic, queue_id))
        self.refused.append((producer, sequence))

    def add(self, other: Sent) -> None:
        """Takes in what other producers know."""
        self.begun += other.begun
        self.acks += other.acks
        self.oneway += other.oneway
        self.refused += other.refused
        self.errors += other.errors

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def load(cls, path: Path) -> Sent:
        """What a producer process saved at its end."""
        return msgspec.json.decode(path.read_bytes(), type=cls)
