"""The machine's limits, measured in the same run as the server."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ....store.disk import files as disk
from ...children import child
from ...limits import (
    CopyLimit,
    SyncLimit,
    futex_hand_over_us,
    paced_hand_over_us,
    sample_record,
)
from ..results.model import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES = 5
_BODY = 1024
_COPIED = 128 << 20
_SYNCS = 40
_ROUNDS = 5000
_PACE, _PACED = 10_000, 5000
_PAGES = 64 << 20
_WRITTEN = 128 << 20
_READ = 256 << 20
_PIECE = 1 << 20
_PATIENCE_S = 30.0


def measure(parent: Path, samples: int = SAMPLES) -> list[Limit]:
    """All of them, in a folder below `parent` that is removed, in some seconds. Raises OSError."""
    turns = range(samples)
    with tempfile.TemporaryDirectory(prefix="silomq-limits-", dir=parent) as inside:
        folder = Path(inside)
        found = [
            Limit("memcpy into a warm mapping, 1 KiB", "bytes/s", list(_copies(folder, turns))),
            Limit("write and fdatasync, 1 KiB", "us", list(_syncs(folder, turns))),
            Limit("futex there and back", "us", [futex_hand_over_us() for _ in turns]),
            Limit(
                f"futex there and back, {_PACE:,}/s between two cores",
                "us",
                [us for _ in turns if (us := paced_hand_over_us(_PACE, _PACED)) is not None],
            ),
            Limit("loopback there and back", "us", [_loopback_us() for _ in turns]),
            Limit("new pages of a file", "bytes/s", list(_new_pages(folder, turns))),
            Limit("sequential write", "bytes/s", list(_writes(folder, turns))),
            Limit("sequential read", "bytes/s", list(_reads(folder, turns))),
        ]
        return [one for one in found if one.samples]


@contextlib.contextmanager
def _file(folder: Path) -> Iterator[int]:
    """The descriptor of a new file, which is removed at the end."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        yield file.fileno()


def _copies(folder: Path, turns: range) -> Iterator[float]:
    limit = CopyLimit(folder, _COPIED)
    try:
        for _ in turns:
            yield limit.measure(_BODY) * len(sample_record(_BODY))
    finally:
        limit.close()


def _syncs(folder: Path, turns: range) -> Iterator[float]:
    """Each sample is the median of some writes."""
    limit = SyncLimit(folder)
    record = sample_record(_BODY)
    try:
        for _ in turns:
            taken = sorted(limit.measure(record, _SYNCS))
            yield taken[len(taken) // 2] * 1e6
    finally:
        limit.close()


def _loopback_us() -> float:
    """A byte over TCP to another process, and back."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        listener.settimeout(_PATIENCE_S)

        def send_back(_: int) -> None:
            with socket.create_connection(address) as far:
                far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while byte := far.recv(1):
                    far.sendall(byte)

        with child(send_back):
            near, _ = listener.accept()
            with near:
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                start = time.perf_counter()
                for _ in range(_ROUNDS):
                    near.sendall(b"x")
                    if not near.recv(1):
                        raise ConnectionResetError("the other process of a round trip has ended")
                return (time.perf_counter() - start) / _ROUNDS * 1e6


def _new_pages(folder: Path, turns: range) -> Iterator[float]:
    """Pages that are made in memory by a first store, as a fast append's are. No sample frees its
    pages: the next one would get the same, and a host may have to make the memory of others first.
    """
    with _file(folder) as fd:
        disk.allocate(fd, 0, len(turns) * _PAGES)
        mapping = disk.map_file(fd, 0, len(turns) * _PAGES, writable=True)
        disk.in_large_folios(mapping)
        for turn in turns:
            start = time.perf_counter()
            if not disk.warm(mapping, turn * _PAGES, _PAGES):
                return  # this kernel cannot
            yield _PAGES / (time.perf_counter() - start)
        mapping.close()


def _writes(folder: Path, turns: range) -> Iterator[float]:
    """A file that is in the page cache, written anew in large pieces and synced."""
    data = os.urandom(_PIECE)
    with _file(folder) as fd:
        disk.allocate(fd, 0, _WRITTEN)
        for turn in (-1, *turns):  # the first makes the pages
            start = time.perf_counter()
            for at in range(0, _WRITTEN, _PIECE):
                os.pwrite(fd, data, at)
            os.fdatasync(fd)
            if turn >= 0:
                yield _WRITTEN / (time.perf_counter() - start)


def _reads(folder: Path, turns: range) -> Iterator[float]:
    """A file that is not in the page cache, read from its beginning to its end."""
    data = os.urandom(_PIECE)
    with _file(folder) as fd:
        for at in range(0, _READ, _PIECE):
            os.pwrite(fd, data, at)
        os.fdatasync(fd)
        room = bytearray(_PIECE)
        for _ in turns:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            start = time.perf_counter()
            for at in range(0, _READ, _PIECE):
                os.preadv(fd, [room], at)
            yield _READ / (time.perf_counter() - start)
