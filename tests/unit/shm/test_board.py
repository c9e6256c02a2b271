"""A board: readers get whole documents only, and can write nothing."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.open_files import nothing_stays_open

from silomq.shm import board
from silomq.shm._memory import Mapping
from silomq.shm.board import BadBoard, BoardWriter

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def made() -> Iterator[tuple[int, int]]:
    """A board's two descriptors: for its session, and for readers."""
    fd = board.create(7)
    reader = board.for_readers(fd)
    try:
        yield fd, reader
    finally:
        os.close(fd)
        os.close(reader)


def test_the_last_document_is_read() -> None:
    with nothing_stays_open(), made() as (fd, reader):
        writer = BoardWriter(fd)
        for document in (b"", b"x" * board.MOST, b"short"):
            writer.write(document)
            assert board.read(reader, 0) == document
        assert board.read(fd, 0) == b"short"
        with pytest.raises(AssertionError):
            writer.write(bytes(board.MOST + 1))
        assert board.read(reader, 0) == b"short"
        del writer


def test_a_reader_cannot_write() -> None:
    with made() as (fd, reader):
        with pytest.raises(PermissionError):
            Mapping(reader, 0, board.SIZE, writable=True)
        for end in (fd, reader):
            with pytest.raises(OSError, match=r"not permitted|Invalid"):
                os.ftruncate(end, 0)
        assert os.fstat(fd).st_size == board.SIZE
        # A reader of another user cannot open it again for writing.
        assert os.fstat(reader).st_mode & 0o777 == 0o600


def test_a_board_without_a_document() -> None:
    with made() as (_, reader):
        began = time.monotonic()
        with pytest.raises(BadBoard, match="nothing was written"):
            board.read(reader, began + 0.05)
        assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize("at", range(16 + 9))
def test_each_byte_counts(at: int) -> None:
    """Any other byte in header or document makes it no document."""
    with made() as (fd, reader):
        BoardWriter(fd).write(b"document!")
        memory = memoryview(Mapping(fd, 0, board.SIZE))
        memory[at] ^= 0x41
        with pytest.raises(BadBoard):
            board.read(reader, 0)
        memory[at] ^= 0x41
        assert board.read(reader, 0) == b"document!"


@pytest.mark.parametrize("length", [board.MOST + 1, 2**31, 2**32 - 1])
def test_a_length_beyond_the_board(length: int) -> None:
    with made() as (fd, reader):
        BoardWriter(fd).write(b"x")
        memoryview(Mapping(fd, 0, board.SIZE))[4:8] = length.to_bytes(4, "little")
        with pytest.raises(BadBoard, match=f"{length} bytes"):
            board.read(reader, 0)


def test_garbage() -> None:
    chance = random.Random(1)
    with made() as (fd, reader):
        memory = memoryview(Mapping(fd, 0, board.SIZE))
        for _ in range(200):
            memory[: board.SIZE // 8] = chance.randbytes(board.SIZE // 8)
            memory[4:8] = chance.randrange(2 * board.MOST).to_bytes(4, "little")
            with pytest.raises(BadBoard):
                board.read(reader, 0)


def test_a_half_written_document_is_not_read() -> None:
    """What a killed writer leaves: the header of one document, and parts of another."""
    with made() as (fd, reader):
        writer, memory = BoardWriter(fd), memoryview(Mapping(fd, 0, board.SIZE))
        writer.write(b"a" * 5000)
        first = bytes(memory)
        writer.write(b"b" * 5000)
        second = bytes(memory)
        for cut in (1, 4, 8, 12, 16, 17, 3000, 5015):
            memory[:] = second[:cut] + first[cut:]
            with pytest.raises(BadBoard):
                board.read(reader, 0)
        memory[:] = second
        assert board.read(reader, 0) == b"b" * 5000


def test_a_reader_beside_a_writer_gets_whole_documents() -> None:
    with made() as (fd, reader):
        pid = os.fork()
        if pid == 0:  # a process of its own: the writer shares no lock with the reader
            with contextlib.suppress(BaseException):
                writer = BoardWriter(fd)
                while os.getppid() > 1:
                    for letter in (b"a", b"b", b"c"):
                        writer.write(letter * random.randrange(1, board.MOST))
            os._exit(0)
        try:
            seen = set()
            deadline = time.monotonic() + 10
            for _ in range(2000):
                found = board.read(reader, deadline)
                assert len(set(found)) == 1
                seen.add(found[:1])
                if len(seen) == 3 and _ > 200:
                    break
            assert seen == {b"a", b"b", b"c"}
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def test_a_reader_waits_for_the_writer() -> None:
    with made() as (fd, reader):
        timer = threading.Timer(0.1, BoardWriter(fd).write, (b"late",))
        timer.start()
        try:
            assert board.read(reader, time.monotonic() + 10) == b"late"
        finally:
            timer.join()
