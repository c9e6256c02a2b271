"""The state of a store, as one process hands it to another."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from silomq.conf.settings import SettingError, Settings
from silomq.supervisor import handover

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield pair
    for end in pair:
        end.close()


def as_handed(settings: Settings) -> dict[str, object]:
    """Settings on the other side of the document."""
    found: dict[str, object] = msgspec.json.decode(
        msgspec.json.encode(msgspec.to_builtins(settings, enc_hook=str))
    )
    return found


def test_settings_arrive_as_they_were() -> None:
    other: dict[str, Any] = {"flush_disk_type": "SYNC_FLUSH", "message_delay_level": "1s 7m 2h"}
    settings = Settings(**other)
    assert handover.read_settings(as_handed(settings)) == settings
    assert handover.read_settings(as_handed(Settings())) == Settings()


def test_a_setting_of_another_release_is_left_out_and_a_bad_value_refused() -> None:
    handed = as_handed(Settings())
    assert handover.read_settings({**handed, "of_another_release": 1}) == Settings()
    del handed["append_spin_us"]
    assert handover.read_settings(handed) == Settings()
    with pytest.raises(SettingError, match="append_spin_us"):
        handover.read_settings({**handed, "append_spin_us": -1})


@pytest.mark.parametrize("count", [0, 1, 200, 450])
def test_descriptors_arrive_in_their_order(
    ends: tuple[socket.socket, socket.socket], count: int
) -> None:
    passed, own = handover.Passed(), [os.memfd_create(f"{i}") for i in range(count)]
    assert [passed.add(fd) for fd in own] == list(range(count))
    assert [passed.add(fd) for fd in own] == list(range(count)), "each once"
    assert passed.add(-1) == -1
    document = b"x" * 300_000
    sender = threading.Thread(target=handover.send, args=(ends[0], document, passed.fds, 5.0))
    sender.start()
    received = handover.receive(ends[1])
    sender.join()
    assert received is not None
    assert received[0] == document
    for number, fd in enumerate(own):
        assert os.path.samestat(os.fstat(fd), os.fstat(received[1][number]))
        assert not os.get_inheritable(received[1][number])
        os.close(fd)
        os.close(received[1][number])


def test_a_sender_that_has_gone_is_noticed(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].close()
    assert handover.receive(ends[1]) is None


def test_a_receiver_that_reads_nothing_does_not_hold_the_sender_up(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    fds = [ends[0].fileno()] * 200_000
    with pytest.raises(OSError, match=r"timed out|Too many references"):
        handover.send(ends[0], b"x", fds, 0.05)
