"""Mail: packets with descriptors. A packet that is not a message leaves no descriptor open."""

from __future__ import annotations

import array
import gc
import os
import resource
import socket
from typing import TYPE_CHECKING

import msgspec
import pytest

from silomq.shm import mail

if TYPE_CHECKING:
    from collections.abc import Iterator

Ends = tuple[socket.socket, socket.socket]


class Note(msgspec.Struct, frozen=True, tag_field="do", tag="note"):
    """A message of these tests."""

    text: str = ""
    numbers: list[int | float | None] = []


class Last(msgspec.Struct, frozen=True, tag_field="do", tag="last"):
    """Another one."""


NOTES: mail.Decoder[Note | Last] = msgspec.json.Decoder(Note | Last)


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Two ends; nothing may stay open that was not before."""
    gc.collect()  # what earlier tests have left must not be closed meanwhile
    before = set(os.listdir("/proc/self/fd"))
    pair = mail.pair()
    yield pair
    for end in pair:
        end.close()
    assert set(os.listdir("/proc/self/fd")) == before


def files(count: int) -> list[int]:
    return [os.memfd_create(f"test-mail-{i}", os.MFD_CLOEXEC) for i in range(count)]


def send_raw(end: socket.socket, data: bytes, fds: list[int]) -> None:
    """Sends what need not be a message; the descriptors are the sender's no more."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    end.sendmsg([data], rights)
    mail.close_all(fds)


@pytest.mark.parametrize("count", [0, 1, 2, mail.MAX_FDS])
def test_a_message_arrives_with_its_descriptors(count: int, ends: Ends) -> None:
    sent = files(count)
    for number, fd in enumerate(sent):
        os.write(fd, bytes([number]))
    message = Note("ü", [1, None, 2.5])
    mail.send(ends[0], message, sent)
    got, fds = mail.receive(ends[1], NOTES)
    assert got == message
    assert len(fds) == count
    for number, fd in enumerate(fds):
        assert os.pread(fd, 2, 0) == bytes([number])
        assert not os.get_inheritable(fd)
    assert not set(fds) & set(sent)
    mail.close_all(sent)
    mail.close_all(fds)


def test_packets_keep_apart_and_in_order(ends: Ends) -> None:
    for number in range(20):
        mail.send(ends[0], Note(numbers=[number]))
    expected = [Note(numbers=[n]) for n in range(20)]
    assert [mail.receive(ends[1], NOTES)[0] for _ in range(20)] == expected


def test_nothing_there_and_nobody_there_are_different(ends: Ends) -> None:
    with pytest.raises(BlockingIOError):
        mail.receive(ends[1], NOTES)
    mail.send(ends[0], Last())
    ends[0].close()
    assert mail.receive(ends[1], NOTES) == (Last(), [])
    assert mail.receive(ends[1], NOTES) == (None, [])


def test_a_message_that_fits_no_packet_is_not_sent(ends: Ends) -> None:
    room = mail.MAX_PACKET - len(msgspec.json.encode(Note()))
    mail.send(ends[0], Note("x" * room))
    assert mail.receive(ends[1], NOTES) == (Note("x" * room), [])
    with pytest.raises(mail.TooLong, match="at most 65536"):
        mail.send(ends[0], Note("x" * (room + 1)))


GARBAGE = (
    b"\0",
    b"not JSON",
    b"[1, 2]",
    b"17",
    b"null",
    b'"text"',
    b'{"a": 1',
    b'{"a": 1} {"b": 2}',
    b'{"a": "\xff\xfe"}',
    b"{1: 2}",
    b"\xff" * 1000,
    b'{"do": "note", "text": "\xff\xfe"}',
    b'{"do": "unheard of"}',
    b'{"do": "note", "text": 5}',
    b'{"text": "x"}',
)


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
@pytest.mark.parametrize("count", [0, 3])
def test_garbage_is_an_error_and_keeps_no_descriptor(data: bytes, count: int, ends: Ends) -> None:
    send_raw(ends[0], data, files(count))
    mail.send(ends[0], Last())
    with pytest.raises(ValueError, match="not a message"):
        mail.receive(ends[1], NOTES)
    assert mail.receive(ends[1], NOTES) == (Last(), [])


def test_a_message_that_does_not_fit_is_kept_and_its_field_named(ends: Ends) -> None:
    packet = b'{"do": "note", "numbers": [1, "two"]}'
    send_raw(ends[0], packet, files(1))
    with pytest.raises(
        mail.Misfit, match=r"Expected `.*`, got `str` - at `\$\.numbers\[1\]`"
    ) as error:
        mail.receive(ends[1], NOTES)
    assert error.value.data == packet


def test_too_many_descriptors_are_all_closed(ends: Ends) -> None:
    send_raw(ends[0], b"{}", files(mail.MAX_FDS + 5))
    with pytest.raises(ValueError, match=r"descriptors were cut off: more than \d+ came"):
        mail.receive(ends[1], NOTES)


def test_a_process_with_too_many_open_files_says_so(ends: Ends) -> None:
    """The kernel delivers the packet without what the process may not have."""
    sent = files(3)
    mail.send(ends[0], Last(), sent)
    mail.close_all(sent)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = [int(name) for name in os.listdir("/proc/self/fd")]
    free = [number for number in range(max(used) + 1) if number not in used]
    # Room for one of the three.
    resource.setrlimit(resource.RLIMIT_NOFILE, ([*free, max(used) + 1][0] + 1, hard))
    try:
        with pytest.raises(ValueError, match="too many open files"):
            mail.receive(ends[1], NOTES)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_packet_that_is_too_long_is_dropped_whole(ends: Ends) -> None:
    send_raw(ends[0], b'{"a": "' + b"x" * (mail.MAX_PACKET + 100) + b'"}', files(2))
    with pytest.raises(ValueError, match=rf"more than the {mail.MAX_PACKET} bytes"):
        mail.receive(ends[1], NOTES)
    mail.send(ends[0], Last())
    assert mail.receive(ends[1], NOTES) == (Last(), [])


def test_an_empty_packet_with_descriptors_is_no_message(ends: Ends) -> None:
    send_raw(ends[0], b"", files(2))
    with pytest.raises(ValueError, match="not a message"):
        mail.receive(ends[1], NOTES)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deeply_nested_json_is_an_error_like_any_other(opening: bytes) -> None:
    before = set(os.listdir("/proc/self/fd"))
    ends = mail.pair()
    send_raw(ends[0], b'{"do": "note", "a":' + opening * 10_000, files(2))
    try:
        with pytest.raises(ValueError, match="not a message"):
            mail.receive(ends[1], NOTES)
        assert len(os.listdir("/proc/self/fd")) == len(before) + 2
    finally:
        for end in ends:
            end.close()
        mail.close_all([int(fd) for fd in set(os.listdir("/proc/self/fd")) - before])
