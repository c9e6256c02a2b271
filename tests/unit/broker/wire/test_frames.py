"""Frames are cut out of a stream, wherever its pieces end."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.broker.wire.command import MAX_FRAME, BadFrame, Command, decode
from silomq.broker.wire.frames import FrameReader


def taken(reader: FrameReader) -> list[int]:
    found = []
    while (frame := reader.take()) is not None:
        found.append(decode(frame).opaque)
    return found


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=30),
    st.lists(st.integers(1, 400), min_size=1, max_size=20),
)
def test_frames_cut_anywhere(bodies: list[int], pieces: list[int]) -> None:
    stream = b"".join(
        Command(10, {"a": "b"}, bytes(size), number).encode() for number, size in enumerate(bodies)
    )
    reader, found, at, turn = FrameReader(), [], 0, 0
    while at < len(stream):
        size = pieces[turn % len(pieces)]
        reader.feed(stream[at : at + size])
        found += taken(reader)
        at, turn = at + size, turn + 1
    assert found == list(range(len(bodies)))


def test_what_was_taken_is_forgotten() -> None:
    frame = Command(10, {}, bytes(1000)).encode()
    reader = FrameReader()
    for _ in range(1000):
        reader.feed(frame + frame[:10])
        assert taken(reader) == [0]
        reader.feed(frame[10:])
        assert taken(reader) == [0]
        assert len(reader._data) < 1 << 18


@pytest.mark.parametrize("length", [-1, 0, 3, MAX_FRAME - 3, 2**31 - 1])
def test_a_bad_length_is_told_at_once(length: int) -> None:
    reader = FrameReader()
    reader.feed(struct.pack(">i", length))
    with pytest.raises(BadFrame, match="bytes: 4 to"):
        reader.take()


@pytest.mark.parametrize("mark", [2 << 24, 255 << 24, 97, (1 << 24) + 97])
def test_a_bad_second_word_is_told_before_the_rest_has_come(mark: int) -> None:
    reader = FrameReader()
    reader.feed(struct.pack(">iI", 100, mark))
    with pytest.raises(BadFrame, match=r"serialisation|a header of 97 bytes"):
        reader.take()


def test_the_longest_frame() -> None:
    reader = FrameReader(limit=1024)
    reader.feed(struct.pack(">iI", 1020, 2) + b"{}" + bytes(1014))
    assert len(reader.take() or b"") == 1020
    reader.feed(struct.pack(">i", 1021))
    with pytest.raises(BadFrame):
        reader.take()
