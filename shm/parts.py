"""Messages that are longer than a packet, between the registry and its clients.

Such a message is sent in parts, one packet each: its number and the number of parts, as in "2/7 ",
then the next PART bytes of the message. Every part but the last one is full. A message that fits a
packet is sent as it is; it begins with "{" and never with a digit.

A part 1 begins a message anew. So a receiver that takes over a connection, or whose sender was
replaced, drops what it has of an older message.

The alternative, a sealed memfd beside a small packet, would need no parts. But the registry takes
no descriptors from clients, so requests would need a second way.
"""

from __future__ import annotations

import re
import time
from typing import Final, Generic

import msgspec

from .mail import MAX_PACKET, Decoder, Message_co, NotAMessage, TooLong

#: The bytes of a message in each part but the last one.
PART: Final = MAX_PACKET - 16
#: The longest request that the registry takes. One about 100,000 queues has 3 MB.
MAX_REQUEST: Final = 16 << 20
_HEADER: Final = re.compile(rb"([1-9][0-9]{0,5})/([1-9][0-9]{0,5}) ")
_MOST_HEADER: Final = 14


class Incomplete(Exception):
    """A part has arrived, and others are to follow."""


class NoRoom(Exception):
    """There is no room for a part. The message is dropped, and its further parts are ignored."""


class Room:
    """The bytes that messages of many senders may take together. `left` is how many more they may
    take; they also count against a larger room, `within`.
    """

    def __init__(self, size: int, within: Room | None = None) -> None:
        self.left = size
        self._within = within

    def take(self, size: int) -> bool:
        """Takes so many bytes, or none: then it returns False."""
        if size > self.left or (self._within is not None and not self._within.take(size)):
            return False
        self.left -= size
        return True

    def give(self, size: int) -> None:
        """Gives back bytes that were taken."""
        self.left += size
        if self._within is not None:
            self._within.give(size)


class Joiner(Generic[Message_co]):
    """Decodes the packets of one sender, and joins the parts of long messages.

    A message has at most `limit` bytes. While it is unfinished its bytes count against `room`, if
    that is given. `since` is when its first part came (monotonic seconds); 0 if there is none.
    """

    def __init__(self, decoder: Decoder[Message_co], limit: int, room: Room | None = None) -> None:
        self._decoder = decoder
        self._limit = limit
        self._room = room
        self._have = bytearray()
        self._parts = (0, 0)  # how many have arrived, of how many
        self.since = 0.0

    def decode(self, packet: bytes, /) -> Message_co:
        """The message that the packet completes.

        Raises Incomplete for a part that is not the last one, and for one whose beginning is
        unknown. Raises NoRoom, NotAMessage for parts that do not fit, and as the decoder does.
        """
        header = _HEADER.match(packet[:_MOST_HEADER])
        if header is None:
            self.drop()
            return self._decoder.decode(packet)
        number, of = int(header[1]), int(header[2])
        data = memoryview(packet)[header.end() :]
        if number == 1:
            self.drop()
        elif self._parts != (number - 1, of):
            self.drop()
            raise Incomplete
        self._keep(data, number, of)
        if number < of:
            raise Incomplete
        whole = bytes(self._have)
        self.drop()
        return self._decoder.decode(whole)

    def _keep(self, data: memoryview, number: int, of: int) -> None:
        if number > of or (number < of and len(data) != PART) or (of - 1) * PART >= self._limit:
            self.drop()
            raise NotAMessage(
                f"not a message: part {number} of {of} with {len(data)} bytes; a message has at "
                f"most {self._limit} bytes, and all parts but the last one have {PART}"
            )
        if self._room is not None and not self._room.take(len(data)):
            self.drop()
            raise NoRoom
        self.since = self.since or time.monotonic()
        self._have += data
        self._parts = (number, of)

    def drop(self) -> None:
        """Forgets an unfinished message."""
        if self._room is not None:
            self._room.give(len(self._have))
        self._have = bytearray()
        self._parts = (0, 0)
        self.since = 0.0


def packets(message: msgspec.Struct, limit: int | None = None) -> list[bytes]:
    """The packets in which a message travels, one or more. Raises TooLong for a message of more
    than `limit` bytes, ValueError, OverflowError and TypeError for one that JSON cannot express.
    """
    data = msgspec.json.encode(message)
    if limit is not None and len(data) > limit:
        raise TooLong(f"a message of {len(data)} bytes: at most {limit} are taken")
    if len(data) <= MAX_PACKET:
        return [data]
    of = -(-len(data) // PART)
    view = memoryview(data)
    return [
        b"%d/%d " % (number + 1, of) + view[number * PART : (number + 1) * PART]
        for number in range(of)
    ]
