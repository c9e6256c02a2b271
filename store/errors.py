"""The exceptions that the store raises.

`StoreError` is their root: `except StoreError` catches them all, but no bug of the store. Bad bytes
are `Corrupt`. A part of the log that a reader cannot read is `CorruptRange`. A message that the
store refuses is `IllegalMessage` and carries the status that RocketMQ would answer. Arguments that
nothing could be done with are `IllegalArgument` or `IllegalType`, and calls at the wrong time are
`IllegalUse`: these are also Python's ValueError, TypeError and RuntimeError. A full disk or a
failed sync is an `OSError` and is not wrapped; `TooManyOpenFiles` is both.

Every message says what happened, where, and what the user can do about it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class BadBody(Corrupt):
    """A message whose body is marked as compressed and cannot be decompressed: its bytes are
    damaged, it is longer than `store/record/compression.py` allows, or the type is unknown. The
    rest of the message is good. `MessageView.raw_body` has the bytes as they are stored.
    """


class UnsupportedFeature(StoreError):
    """A store of RocketMQ that uses features which this store does not have. Nothing was changed.

    `found` has for each its trace (the path of a file or folder), its name, and advice.
    """

    def __init__(self, found: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(found)
        self.found = tuple(found)

    def __str__(self) -> str:
        said = "; ".join(f"{path} shows {what}: {advice}" for path, what, advice in self.found)
        return f"the store uses features of RocketMQ that SiloMQ does not have: {said}"


class CorruptRange(StoreError):
    """A reader came to commit-log offsets `[start, end)` whose bytes are damaged or lost.

    The data before `start` and from `end` on is good. A reader of a queue also says which messages
    it missed: the queue offsets `queue_offsets`, as [first, end), of queue `queue_id` of `topic`.
    They are None for a reader that reads the log itself.

    A range that `silo repair --holes` has declared is raised once when reading of a queue reaches
    it; the next call goes on behind it.
    """

    def __init__(
        self,
        start: int,
        end: int,
        topic: str | None = None,
        queue_id: int | None = None,
        queue_offsets: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(start, end, topic, queue_id, queue_offsets)
        self.start = start
        self.end = end
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offsets = queue_offsets

    def __str__(self) -> str:
        lost = ""
        if self.queue_offsets is not None:
            first, end = self.queue_offsets
            lost = (
                f"; queue {self.queue_id} of topic {self.topic} has lost its {end - first} messages"
                f" from queue offset {first} to {end}"
            )
        return (
            f"commit log is corrupt from offset {self.start} to {self.end}"
            f" ({self.end - self.start} bytes){lost}: restore the range from a copy"
            " (then silo repair --rebuild), or go on reading at "
            f"{self.end if self.queue_offsets is None else 'the next message'}"
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


class IllegalArgument(StoreError, ValueError):
    """An argument of a call has a value that is not allowed. Nothing was done. The message names
    the argument and says what is allowed.
    """


class IllegalType(StoreError, TypeError):
    """An argument of a call has a type that is not allowed. Nothing was done. The message names the
    argument and says what is allowed. Also raised for copies of clients, which cannot be made.
    """


class IllegalUse(StoreError, RuntimeError):
    """A call that the object does not allow now, or not from this thread."""


class IllegalQuery(IllegalArgument):
    """A query with an argument that is not valid in this store: an unknown topic, a queue or offset
    out of range, an impossible time, a malformed id. The message says what is allowed.
    """


class TooManyOpenFiles(StoreError, OSError):
    """This process, or the machine, may not open another file now. It is an OSError with `errno`
    and, for a file, `filename`. Nothing was opened: the call may be repeated.
    """

    def __str__(self) -> str:
        where = f" ({self.filename})" if self.filename else ""
        return (
            f"too many open files{where}: close some, or raise this process's limit (ulimit -n, "
            "LimitNOFILE)"
        )


@contextlib.contextmanager
def limited_by_open_files() -> Iterator[None]:
    """Turns EMFILE and ENFILE within the block into TooManyOpenFiles."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        raise TooManyOpenFiles(error.errno, error.strerror, error.filename) from error


class MessageNotFound(StoreError, LookupError):
    """The query is valid, but the message never existed or has been removed."""
