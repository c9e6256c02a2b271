"""What the store raises.

`StoreError` is the root: catching it catches everything below, and nothing that is a bug. Bad bytes
are `Corrupt`, a part of the log that cannot be served is `CorruptRange`, a message that the store
does not take is `IllegalMessage` and carries the status that RocketMQ would answer. A full disk or
a failed sync is an `OSError` and is not wrapped.

Every message says what happened, where, and what can be done about it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .status import PutMessageStatus


class StoreError(Exception):
    """The root of all errors of the store."""


class Corrupt(StoreError):
    """Bytes that cannot be what they should be.

    `path` is the file (or "" for bytes in memory), `offset` the place of the damage: an address in
    the commit log where `path` belongs to it, a position in the file otherwise. `why` is one
    sentence.
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
    """A reader came to commit-log addresses `[start, end)` whose bytes are damaged.

    The data before `start` and from `end` on is good. A reader that goes on at `end` skips the
    damage knowingly; nothing skips it silently.
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
    """A message, topic or group that the store refuses; nothing was written.

    `status` is RocketMQ's answer to the same message, `why` says what is wrong and what is allowed.
    """

    def __init__(self, status: PutMessageStatus, why: str) -> None:
        super().__init__(status, why)
        self.status = status
        self.why = why

    def __str__(self) -> str:
        return f"{self.status.name}: {self.why}"


class IllegalQuery(StoreError, ValueError):
    """A question that makes no sense to this store: an unknown topic, a queue or an offset out of
    range, a time that cannot be, a malformed id. The message says what is allowed.
    """


class MessageNotFound(StoreError, LookupError):
    """The question makes sense and there is no such message, or no longer."""
