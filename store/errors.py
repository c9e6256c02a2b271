"""The exceptions that the store raises.

`StoreError` is their root: `except StoreError` catches them all, but no bug of the store. Bad bytes
are `Corrupt`. A part of the log that a reader cannot read is `CorruptRange`. A message that the
store refuses is `IllegalMessage` and carries the status that RocketMQ would answer. A full disk or
a failed sync is an `OSError` and is not wrapped.

Every message says what happened, where, and what the user can do about it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .status import PutMessageStatus


class StoreError(Exception):
    """The root of all errors that the store defines."""


class Corrupt(StoreError):
    """Bytes that break the rules of their format.

    `path` is the file, or "" for bytes in memory. `offset` is the place of the damage: an offset of
    the commit log if `path` belongs to it, otherwise a position in the file. `why` is one sentence.
    """

    def __init__(self, path: str | os.PathLike[str], offset: int, why: str) -> None:
        super().__init__(path, offset, why)
        self.path = os.fspath(path)
        self.offset = offset
        self.why = why

    def __str__(self) -> str:
        where = f"{self.path}, offset {self.offset}" if self.path else f"offset {self.offset}"
        return f"corrupt data at {where}: {self.why}"


class CorruptRange(StoreError):
    """A reader came to commit-log offsets `[start, end)` whose bytes are damaged.

    The data before `start` and from `end` on is good. A reader may continue at `end`; no reader
    skips the damage by itself.
    """

    def __init__(self, start: int, end: int) -> None:
        super().__init__(start, end)
        self.start = start
        self.end = end

    def __str__(self) -> str:
        return (
            f"commit log is corrupt from offset {self.start} to {self.end}"
            f" ({self.end - self.start} bytes): restore the range from a copy,"
            f" or go on reading at {self.end}"
        )


class IllegalMessage(StoreError):
    """A message, topic or group that the store refuses; the store wrote nothing.

    `status` is RocketMQ's answer to the same message. `why` says what is wrong and what is allowed.
    """

    def __init__(self, status: PutMessageStatus, why: str) -> None:
        super().__init__(status, why)
        self.status = status
        self.why = why

    def __str__(self) -> str:
        return f"{self.status.name}: {self.why}"


class IllegalQuery(StoreError, ValueError):
    """A query with an argument that is not valid in this store: an unknown topic, a queue or offset
    out of range, an impossible time, a malformed id. The message says what is allowed.
    """


class MessageNotFound(StoreError, LookupError):
    """The query is valid, but the message never existed or has been removed."""
