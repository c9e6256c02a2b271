"""Descriptors from clients: noticed before they are taken, and closed where nobody waits."""

from __future__ import annotations

import functools
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, NoReturn

import pytest
from support.harness import eventually
from support.lingering import lingering

from silomq.actors.registry import passed_descriptors

if TYPE_CHECKING:
    from collections.abc import Iterator

LINGER_S = 20
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A client's end and the registry's, as on a kernel that does not refuse descriptors."""
    client, registry = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    registry.setblocking(False)
    yield client, registry
    client.close()
    registry.close()


def test_a_packet_with_descriptors_is_known_before_it_is_received(ends: Ends) -> None:
    client, registry = ends
    client.send(b"{}")
    assert not passed_descriptors.come_along(registry)
    assert registry.recv(100) == b"{}"
    with pytest.raises(BlockingIOError):
        passed_descriptors.come_along(registry)
    socket.send_fds(client, [b"{}"], [0])
    assert passed_descriptors.come_along(registry)
    assert registry.recv(100, socket.MSG_PEEK) == b"{}"  # it is still there


def close_all(closer: passed_descriptors.Closer) -> None:
    def tick() -> bool:
        closer.tick()
        return closer.patience() == float("inf")

    eventually(tick, "a thread has closed all", 10)


@pytest.mark.parametrize("before", [[], [b"{}"], [b"", b"", b"{}"]], ids=repr)
def test_closing_does_not_wait_for_what_a_client_has_sent(ends: Ends, before: list[bytes]) -> None:
    client, registry = ends
    for packet in before:
        client.send(packet)
    evil, others = lingering(LINGER_S)
    socket.send_fds(client, [b"{}"], [evil.fileno()])
    evil.close()
    done: list[bool] = []
    held = socket.socket(fileno=os.dup(registry.fileno()))  # as the supervisor does
    began = time.monotonic()
    closer = passed_descriptors.Closer(1)
    closer.close(registry, lambda: done.append(True))
    assert time.monotonic() - began < LINGER_S
    assert not done
    assert closer.is_full
    with pytest.raises(BrokenPipeError):
        client.send(b"{}")  # no more can come
    close_all(closer)
    assert done == [True]
    assert registry.fileno() == -1
    began = time.monotonic()
    held.close()
    assert time.monotonic() - began < LINGER_S  # nothing was left in it
    for end in others:
        end.close()


def test_closing_an_ordinary_connection_is_done_at_once(ends: Ends) -> None:
    client, registry = ends
    client.send(b"{}")
    done: list[bool] = []
    passed_descriptors.Closer(1).close(registry, lambda: done.append(True))
    assert done == [True]
    assert registry.fileno() == -1


def test_packets_of_a_client_that_is_gone_are_received_all_the_same(ends: Ends) -> None:
    """It has left an answer unread: the kernel says so before it hands out the packets."""
    client, registry = ends
    registry.send(b"{}")
    evil, others = lingering(LINGER_S)
    socket.send_fds(client, [b"{}"], [evil.fileno()])
    evil.close()
    client.close()
    closer = passed_descriptors.Closer(1)
    closer.close(registry, lambda: None)
    assert closer.is_full
    close_all(closer)
    for end in others:
        end.close()


@pytest.mark.parametrize("held", [False, True], ids=["no session", "session"])
def test_many_lingering_sockets_cost_one_thread_and_little_time(*, held: bool) -> None:
    closer = passed_descriptors.Closer(4)
    threads = threading.active_count()
    done: list[int] = []
    opened: list[socket.socket] = []
    for number in range(4):
        assert not closer.is_full
        client, registry = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        registry.setblocking(False)
        for _ in range(3):
            evil, others = lingering(LINGER_S)
            socket.send_fds(client, [b"{}"], [evil.fileno()])
            evil.close()
            opened += others
        closer.close(registry, functools.partial(done.append, number) if held else None)
        opened += [client, registry]
    assert closer.is_full
    closer.tick()
    assert threading.active_count() <= threads + 1
    close_all(closer)
    assert done == ([0, 1, 2, 3] if held else [])
    assert not any(end.fileno() >= 0 for end in opened[7::8])
    for end in opened:
        end.close()


def test_a_thread_that_cannot_be_started_is_started_later(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, registry = ends
    socket.send_fds(client, [b"{}"], [0])
    closer = passed_descriptors.Closer(1)

    def fail(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        closer.close(registry)
        closer.tick()
    assert registry.fileno() >= 0
    close_all(closer)
    assert registry.fileno() == -1


def test_the_kernel_refuses_descriptors_where_it_can() -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("")
    listener.listen()
    passed_descriptors.refuse(listener)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    try:
        release = tuple(int(part) for part in os.uname().release.split(".")[:2])
        assert passed_descriptors.are_refused(listener) is (release >= (6, 16))
        if passed_descriptors.are_refused(server):
            with pytest.raises(PermissionError):
                socket.send_fds(client, [b"{}"], [0])
        socket.send_fds(server, [b"{}"], [0])  # the registry's own still arrive
        _, fds, _, _ = socket.recv_fds(client, 10, 1)
        os.close(fds[0])
    finally:
        for end in (listener, client, server):
            end.close()
