"""The commit log as recovery of a stopped store would find it: its records, and where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ...store.commitlog import _scan as kernel
from ...store.errors import Corrupt
from ...store.record.fields import HEAD_BYTES, head_of, magic_of, store_time_of
from ...store.record.format import BLANK_BYTES, MAGIC_BLANK, Record, decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...store.recovery.checkpoint import Checkpoint
    from ..raw.files import StoreFiles

ENDS: Final = {
    kernel.NOTHING: "no record follows",
    kernel.BAD_LENGTHS: "a record whose lengths do not add up",
    kernel.BAD_CRC: "a record whose body fails its CRC",
    kernel.BAD_OFFSET: "a record that names another offset",
    kernel.FULL: "the file is full",
    kernel.END_OF_FILE: "the file is closed",
}
#: RocketMQ checks the last three files after a clean stop (4.x to 5.3.1).
_LAST_FILES: Final = 3


class Blank(NamedTuple):
    """An end-of-file record: its log address, and the bytes from there to the end of the file."""

    offset: int
    size: int


class LogView:
    """Records of the log in [`first`, `end`), addresses in bytes; `end` is set by `recover`."""

    def __init__(self, files: StoreFiles) -> None:
        self.files = files
        self.file_size = files.log_size
        self.bases = [file.base for file in files.log]
        self.first = self.bases[0] if self.bases else -1
        self.end = 0
        #: Reasons, in sentences, why the store would not be served as it is.
        self.problems: list[str] = []

    def recover(self, checkpoint: Checkpoint, *, clean: bool) -> int:
        """Finds `end`. Returns the address from which RocketMQ's recovery reads.

        After a clean stop that is the third last file. After a crash it is the newest file whose
        first record is not younger than the checkpoint's safe time (`recoverNormally`,
        `recoverAbnormally` of 4.x).
        """
        if not self.bases:
            return 0
        start = self.bases.index(self.recovery_start(checkpoint, clean=clean))
        check_crc = self.files.settings.check_crc_on_recover
        for number in range(start, len(self.bases)):
            base = self.bases[number]
            position, _, _, why = kernel.scan(self._view(base), 0, base, check_crc)
            self.end = base + position
            if why not in (kernel.END_OF_FILE, kernel.FULL):
                self._look_behind(number, why)
                break
            if number + 1 == len(self.bases) and why == kernel.END_OF_FILE:
                # There is no file behind the closed one: RocketMQ overwrites its end-of-file
                # record.
                self.end = max(
                    found.offset for found in self.walk(base) if isinstance(found, Blank)
                )
        return self.bases[start]

    def recovery_start(self, checkpoint: Checkpoint, *, clean: bool) -> int:
        """The address from which RocketMQ's recovery reads (see `recover`); 0 without files."""
        if not self.bases:
            return 0
        if clean:
            return self.bases[max(0, len(self.bases) - _LAST_FILES)]
        return self.bases[self._newest_safe(checkpoint.safe_time_ms)]

    def _newest_safe(self, limit_ms: int) -> int:
        for number in range(len(self.bases) - 1, -1, -1):
            view = self._view(self.bases[number])
            if head_of(view).is_record and 0 < store_time_of(view) <= limit_ms:
                return number
        return 0

    def _look_behind(self, number: int, why: int) -> None:
        """Adds a problem if a later file holds records: then the log's end is damage, and no torn
        tail.
        """
        for base in self.bases[number + 1 :]:
            view = self._view(base)
            if kernel.scan(view[: 1 << 20], 0, base, False)[1]:  # noqa: FBT003  positional-only
                self.problems.append(
                    f"{self.files.log_path(self.bases[number])}: the log ends at offset {self.end} "
                    f"({ENDS[why]}), but {self.files.log_path(base)} behind it holds records: "
                    "RocketMQ would delete them, SiloMQ refuses to start"
                )
                return

    def _view(self, base: int) -> memoryview:
        return self.files.log_view(base)

    def walk(self, start: int, end: int | None = None) -> Iterator[Record | Blank]:
        """Records and end-of-file records from `start` (where one begins) up to `end`.

        Raises Corrupt at bytes that are neither.
        """
        at = start
        stop = self.end if end is None else end
        while at < stop:
            base = at - at % self.file_size
            view, position = self._view(base), at - base
            left = self.file_size - position
            if left >= BLANK_BYTES and magic_of(view, position) == MAGIC_BLANK:
                yield Blank(at, left)
                at += left
                continue
            record = decode_record(
                view, position, path=self.files.log_path(base), base=base, check_crc=False
            )
            yield record
            at += record.total_size

    def bytes_at(self, offset: int, size: int) -> memoryview | None:
        """The bytes [offset, offset + size) if one file of the log holds them, else None."""
        base = offset - offset % self.file_size
        if offset < 0 or size < 0 or base not in self.files.log_bases:
            return None
        if offset + size > min(base + self.file_size, self.end):
            return None
        return self._view(base)[offset - base : offset - base + size]

    def record_at(self, offset: int) -> Record | None:
        """The record that begins at `offset`; None if there is no readable record."""
        head = self.bytes_at(offset, 4)
        if head is None:
            return None
        data = self.bytes_at(offset, int.from_bytes(head, "big", signed=True))
        if data is None:
            return None
        try:
            return decode_record(data, base=offset, check_crc=False)
        except Corrupt:
            return None

    def store_time_at(self, offset: int, size: int) -> int:
        """Store time (ms) of the record of `size` bytes at `offset`; -1 if the log does not hold it
        (`CommitLog.pickupStoreTimestamp`).
        """
        data = self.bytes_at(offset, size) if offset >= self.first else None
        return -1 if data is None or len(data) < HEAD_BYTES else store_time_of(data)
