"""Ack files: what a member writes is what the registry reads, and nothing else passes for one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.disk.files import Folder
from silomq.store.errors import Corrupt
from silomq.store.groups import ack_file
from silomq.store.groups.ack_file import About, AckReader, AckWriter, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUEUES = [("topic", 0), ("topic", 1), ("%RETRY%g", 0)]
ABOUT = About("g", 7, "clustering", "", {"topic": ("TAG", "*")}, QUEUES)
NUMBER = 1234


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.open(tmp_path) as found:
        yield found


def writer_of(folder: Folder, number: int = NUMBER) -> AckWriter:
    fds = ack_file.hand_out(folder, number)
    try:
        return AckWriter(*fds)
    finally:
        for fd in fds:
            os.close(fd)


def test_a_new_file_says_where_each_queue_begins(folder: Folder) -> None:
    start = [Progress(5), Progress(0, frozenset({3, 9})), Progress(2**40)]
    ack_file.create(folder, NUMBER, ABOUT, start)
    assert ack_file.numbers(folder) == [NUMBER]
    reader, writer = AckReader(folder, NUMBER), writer_of(folder)
    assert reader.about == writer.about == ABOUT
    assert reader.offsets() == [5, 0, 2**40]
    assert reader.progress() == dict(zip(QUEUES, start, strict=True))
    assert writer.beyond(1) == {3, 9}
    assert writer.offset(2) == 2**40


def test_a_member_of_no_queue_has_a_file_too(folder: Folder) -> None:
    nobody = About("g", 7, "clustering", "", {}, [])
    ack_file.create(folder, NUMBER, nobody, [])
    assert AckReader(folder, NUMBER).progress() == {}


@given(st.data())
def test_what_was_marked_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any acknowledgements within the window, and any moves of the offset, against a set."""
    with Folder.open(tmp_path_factory.mktemp("acks")) as folder:
        ack_file.create(folder, NUMBER, ABOUT, [Progress(0)] * 3)
        writer = writer_of(folder)
        offset, acked = 0, set[int]()
        for _ in range(data.draw(st.integers(1, 12))):
            for at in data.draw(
                st.sets(st.integers(offset, offset + writer.window - 1), max_size=9)
            ):
                writer.mark(1, at)
                acked.add(at)
            offset = data.draw(st.integers(offset, offset + 2 * writer.window))
            writer.move(1, offset)
            acked = {at for at in acked if at >= offset}
            found = AckReader(folder, NUMBER).progress()
            assert found["topic", 1] == Progress(offset, frozenset(acked))
            assert found["topic", 0] == found["%RETRY%g", 0] == Progress(0)


@pytest.mark.parametrize("offset", [0, 1, 100_003])
@pytest.mark.parametrize("queue", range(len(QUEUES)))
def test_every_word_of_a_window_counts(folder: Folder, queue: int, offset: int) -> None:
    """Also the last one, of the last queue too: alone, all together, and in the next file."""
    start = [Progress(0)] * len(QUEUES)
    start[queue] = Progress(offset)
    window = ack_file.window_for(len(QUEUES))
    every = range(offset + 1, offset + window)
    edges = [at for at in every if at % window in (0, 1, window - 2, window - 1)]
    for number, at in enumerate({*edges, every[0], every[-1]}, NUMBER):
        ack_file.create(folder, number, ABOUT, start)
        writer_of(folder, number).mark(queue, at)
        found = AckReader(folder, number).progress()
        assert found[QUEUES[queue]] == Progress(offset, frozenset({at}))
        assert writer_of(folder, number).beyond(queue) == {at}
        assert all(found[other] == Progress(0) for other in QUEUES if other != QUEUES[queue])
    ack_file.create(folder, NUMBER - 1, ABOUT, start)
    writer = writer_of(folder, NUMBER - 1)
    for at in every:
        writer.mark(queue, at)
    whole = AckReader(folder, NUMBER - 1).progress()
    assert whole[QUEUES[queue]] == Progress(offset, frozenset(every))
    ack_file.create(folder, NUMBER - 2, ABOUT, [whole[name] for name in QUEUES])
    assert AckReader(folder, NUMBER - 2).progress() == whole
    assert writer_of(folder, NUMBER - 2).beyond(queue) == set(every)


def test_many_queues_share_the_space(folder: Folder) -> None:
    queues = [("t", i) for i in range(40_000)]
    about = About("g", 1, "clustering", "", {}, queues)
    ack_file.create(folder, NUMBER, about, [Progress(i) for i in range(len(queues))])
    assert folder.size(f"{NUMBER:020d}") < 32 << 20
    assert AckReader(folder, NUMBER).offsets() == list(range(40_000))
    assert writer_of(folder).about.queues == queues


def test_a_file_that_its_member_shortened_is_refused(folder: Folder) -> None:
    ack_file.create(folder, NUMBER, ABOUT, [Progress(0)] * 3)
    reader = AckReader(folder, NUMBER)
    with folder.file(f"{NUMBER:020d}", write=True) as fd:
        os.ftruncate(fd, 700)
    with pytest.raises(Corrupt, match="shortened"):
        reader.progress()
    with pytest.raises(Corrupt, match="shortened"):
        reader.offsets()
    with pytest.raises(Corrupt):
        AckReader(folder, NUMBER)


def test_what_a_killed_registry_left_is_removed(folder: Folder) -> None:
    ack_file.create(folder, NUMBER, ABOUT, [Progress(0)] * 3)
    ack_file.create(folder, NUMBER + 1, ABOUT, [Progress(0)] * 3)
    folder.unlink(f"{NUMBER + 1:020d}.json")
    with folder.file(f"{NUMBER + 2:020d}.tmp", write=True, create=True):
        pass
    assert ack_file.numbers(folder) == [NUMBER]
    assert folder.names() == [f"{NUMBER:020d}", f"{NUMBER:020d}.json"]
    ack_file.remove(folder, NUMBER)
    assert folder.names() == []


@given(st.binary(max_size=200))
def test_a_member_can_write_anything(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Whatever is in the words, it speaks of this member's queues, and makes no one fail."""
    with Folder.open(tmp_path_factory.mktemp("acks")) as folder:
        ack_file.create(folder, NUMBER, ABOUT, [Progress(0)] * 3)
        with folder.file(f"{NUMBER:020d}", write=True) as fd:
            os.pwrite(fd, data, 0)
        found = AckReader(folder, NUMBER).progress()
        assert set(found) == set(QUEUES)
        assert all(p.offset < min(p.beyond, default=2**64) for p in found.values())


@pytest.mark.parametrize("text", [b"", b"{}", b'{"group": 1}', b"\xff", b"[" * 100])
def test_a_torn_description_is_refused(folder: Folder, text: bytes) -> None:
    """A power cut may leave it so."""
    ack_file.create(folder, NUMBER, ABOUT, [Progress(0)] * 3)
    with folder.file(f"{NUMBER:020d}.json", write=True) as fd:
        os.ftruncate(fd, 0)
        os.pwrite(fd, text, 0)
    with pytest.raises(Corrupt, match="no description"):
        AckReader(folder, NUMBER)
