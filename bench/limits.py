"""The limits of the machine, measured in the same run as the store."""

from __future__ import annotations

import contextlib
import mmap
import os
import statistics
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

from ..shm._memory import Mapping
from ..store.disk import files as disk
from ..store.record.format import encode_record
from ._limits import copy_records, hand_over, hand_over_times
from .children import child

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_HAND_OVERS = 20_000


def sample_record(body_size: int) -> bytes:
    """A record as a producer makes it for a body of this size: UNIQ_KEY, no tags, no keys."""
    properties = b"UNIQ_KEY\x01" + b"0" * 32 + b"\x02"
    return encode_record(b"bench", b"x" * body_size, properties, queue_id=0, flag=0)


class CopyLimit:
    """M: records copied into a warm mapped file of `size` bytes in `folder`, per second."""

    def __init__(self, folder: Path, size: int = 512 * 1024 * 1024) -> None:
        self.path = folder / "copy-limit"
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        disk.allocate(fd, 0, size)
        self.mapping = Mapping(fd, 0, size)
        os.close(fd)
        disk.warm(self.mapping, 0, size)

    def measure(self, body_size: int) -> float:
        record = sample_record(body_size)
        count, seconds = copy_records(self.mapping, record * 256, len(record))
        return count / seconds

    def close(self) -> None:
        self.path.unlink()


class SyncLimit:
    """Repeats a raw write and fdatasync of one record, in a file whose blocks are written
    already.
    """

    def __init__(self, folder: Path, size: int = 64 * 1024 * 1024) -> None:
        self.path = folder / "sync-limit"
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        disk.allocate(self.fd, 0, size)
        for at in range(0, size, 1 << 20):
            os.pwrite(self.fd, bytes(1 << 20), at)
        os.fsync(self.fd)
        self.size = size
        self.at = 0

    def measure(self, record: bytes, count: int) -> list[float]:
        """Seconds of each of `count` durable writes, one after the other."""
        taken = []
        for _ in range(count):
            if self.at + len(record) > self.size:
                self.at = 0
            start = time.perf_counter()
            os.pwrite(self.fd, record, self.at)
            os.fdatasync(self.fd)
            taken.append(time.perf_counter() - start)
            self.at += len(record)
        return taken

    def close(self) -> None:
        os.close(self.fd)
        self.path.unlink()


def futex_hand_over_us() -> float:
    """Microseconds for a word to go to another process and back, while both sleep in between. Their
    cores stay awake, and may be one.
    """
    with _other_side(_HAND_OVERS) as memory:
        return hand_over(memory, 0, _HAND_OVERS) / _HAND_OVERS * 1e6


def paced_hand_over_us(rate: int, rounds: int) -> float | None:
    """The same from one core to another, `rate` times a second, so that the cores sleep in between
    too: the median. The cores are the first two that this process may use; None if it may use only
    one. They can be threads of one physical core.
    """
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        return None
    here, there = sorted(cores)[:2]
    taken = array("q", bytes(8 * rounds))
    try:
        with _other_side(rounds, {there}) as memory:
            os.sched_setaffinity(0, {here})
            hand_over_times(memory, taken, 1_000_000_000 // rate)
    finally:
        os.sched_setaffinity(0, cores)
    return statistics.median(taken) / 1e3


@contextlib.contextmanager
def _other_side(rounds: int, cores: Collection[int] = ()) -> Iterator[mmap.mmap]:
    """Memory to hand over in, with a process that hands back so many times, on one of `cores` if
    they are given.
    """
    memory = mmap.mmap(-1, 4096)

    def hand_back(_: int) -> None:
        if cores:
            os.sched_setaffinity(0, cores)
        hand_over(memory, 1, rounds)

    with child(hand_back):
        yield memory
