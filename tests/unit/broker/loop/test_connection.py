"""The bytes of a peer become frames wherever they are cut, also after it was held back."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.echo import Echo, frame, read
from support.harness import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as running:
        yield running


def test_frames_cut_anywhere() -> None:
    with Echo() as echo, echo.connect() as end:

        @settings(deadline=None, max_examples=40)
        @given(
            st.lists(st.integers(0, 3000), min_size=1, max_size=20),
            st.lists(st.integers(1, 4000), min_size=1, max_size=20),
        )
        def check(bodies: list[int], pieces: list[int]) -> None:
            stream = b"".join(frame(bytes([n]) * size) for n, size in enumerate(bodies))
            at = turn = 0
            while at < len(stream):
                size = pieces[turn % len(pieces)]
                end.sendall(stream[at : at + size])
                at, turn = at + size, turn + 1
            assert read(end, len(stream)) == stream

        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        check()
        assert echo.limits.holds == 0, "nothing is kept between frames"


def test_a_peer_that_is_held_back(echo: Echo) -> None:
    echo.hold_at = 3
    stream = b"".join(frame(b"%4d" % n * 100) for n in range(50))
    with echo.connect() as end:
        end.sendall(stream[:-7])
        size = len(stream) // 50 * 3
        assert read(end, size) == stream[:size]
        end.sendall(stream[-7:])
        end.settimeout(0.2)
        with pytest.raises(TimeoutError):
            end.recv(1)
        assert echo.count == 3
        assert echo.last is not None
        echo.call(echo.last.release)
        end.settimeout(10)
        assert read(end, len(stream) - size) == stream[size:]


def test_a_peer_that_does_not_read(echo: Echo) -> None:
    one = frame(bytes(100_000))
    with echo.connect() as end:
        end.settimeout(0.5)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 1000:
                end.sendall(one)
                sent += 1
        assert sent < 1000
        assert echo.last is not None
        assert echo.last.unsent < (1 << 20) + 2 * len(one)
        end.settimeout(10)
        size = len(one) * sent
        assert len(read(end, size)) == size


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (struct.pack(">I", 3), "a frame of 3 bytes"),
        (struct.pack(">I", 0xFFFFFFFF), "a frame of 4294967295 bytes"),
        (struct.pack(">I", 1000 - 3), "a frame of 997 bytes: 4 to 996"),
        (frame(b"xx", 3), "a header of type 0 and 3 bytes in a frame of 6"),
        (frame(b"xx", 2 << 24), "a header of type 2"),
    ],
)
def test_what_is_no_frame(data: bytes, why: str) -> None:
    with Echo(most=1000) as echo:
        for before in (b"", frame(b"good")):
            with echo.connect() as end:
                end.sendall(before + data + bytes(100))
                assert read(end, 1000) in (b"", before)
        assert len(echo.ends) == 2
        assert all(end.startswith(why) for end in echo.ends), echo.ends


def test_a_long_header_is_refused_before_it_comes(echo: Echo) -> None:
    with echo.connect() as end:
        end.sendall(struct.pack(">II", 1 << 20, 300_000))
        assert read(end, 1) == b""
    assert echo.ends == ["a header of more than 256 KiB"]


def test_unfinished_frames_are_bounded_and_given_back(echo: Echo) -> None:
    part = struct.pack(">II", 3 << 20, 0) + bytes(2 << 20)
    with echo.connect() as first, echo.connect() as second:
        first.sendall(part)
        eventually(lambda: echo.limits.holds > 2 << 20, "it is kept")
        with contextlib.suppress(ConnectionError):
            second.sendall(part)
        assert read(second, 1) == b""
        eventually(lambda: echo.ends, "it is told why")
        assert echo.ends == ["more than 4 MiB of unfinished requests"]
        first.sendall(bytes((1 << 20) - 4))
        assert len(read(first, 4 + (3 << 20))) == 4 + (3 << 20)
        assert echo.limits.holds == 0


def test_a_handler_ends_its_connection(echo: Echo) -> None:
    echo.poison = b"poison"
    good = frame(b"good")
    with echo.connect() as other:
        for _ in range(20):
            with echo.connect() as end, contextlib.suppress(ConnectionError):
                end.sendall(good + frame(b"poison") + good * 10)
                assert len(read(end, 1000)) <= len(good)
        other.sendall(good)
        assert read(other, len(good)) == good
    assert echo.ends[:20] == ["poison"] * 20
    assert echo.limits.holds == 0


class Breaking:
    """A layer of TLS that cannot encrypt some answers. OpenSSL cannot be brought to that."""

    def receive(self, data: bytes) -> bytes:
        return data.removeprefix(b"\x16")

    def to_send(self) -> bytes:
        return b""

    def encrypt(self, data: Buffer) -> bytes:
        if b"broken" in bytes(data):
            raise OSError("the layer is broken")
        return bytes(data)


def test_an_answer_that_cannot_be_encrypted_ends_its_connection() -> None:
    with Echo(secure=Breaking) as echo, echo.connect() as end, echo.connect() as other:
        end.sendall(b"\x16" + frame(b"first"))
        assert read(end, len(frame(b"first"))) == frame(b"first")
        end.sendall(frame(b"broken"))
        assert read(end, 1) == b""
        assert echo.ends == ["TLS: the layer is broken"]
        other.sendall(frame(b"other"))
        assert read(other, len(frame(b"other"))) == frame(b"other")
