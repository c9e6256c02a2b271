"""How append sleeps and wakes within its kernel (`store/commitlog/rest.h`)."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.append_rig import Rig
from support.frames import one

from silomq.shm.control import Control
from silomq.store.commitlog import _append as kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def sleeping(rig: Rig) -> tuple[select.epoll, int, int]:
    """An epoll for append: with an inbox, and the eventfd of a session."""
    poll = select.epoll()
    inbox, bell = (os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(2))
    poll.register(inbox, select.EPOLLIN)
    poll.register(bell, select.EPOLLIN | select.EPOLLET)
    rig.kernel.rest_in(poll.fileno(), inbox, inbox)
    return poll, inbox, bell


@pytest.fixture
def asleep() -> Iterator[tuple[Rig, Callable[[], None], int, int]]:
    """A rig whose kernel sleeps for up to 10 s in a thread, which the function awaits; its inbox,
    and the eventfd of its session.
    """
    rig = Rig()
    rig.new_ring()
    poll, inbox, bell = sleeping(rig)
    reasons: list[int] = []
    thread = threading.Thread(
        target=lambda: reasons.append(rig.kernel.run(0, 10 * 10**9, sleeps=True))
    )
    thread.start()
    while not rig.control.load("append_asleep"):
        time.sleep(0.001)

    def awake() -> None:
        thread.join(5)
        assert not thread.is_alive(), "append sleeps on"
        assert reasons == [kernel.IDLE]
        assert rig.control.load("append_asleep") == 0

    yield rig, awake, inbox, bell
    os.eventfd_write(inbox, 1)
    thread.join()
    poll.close()
    os.close(inbox)
    os.close(bell)


Asleep = tuple[Rig, "Callable[[], None]", int, int]


def test_a_session_wakes_append_within_its_kernel(asleep: Asleep) -> None:
    rig, awake, inbox, bell = asleep
    for number in range(3):
        (producer,) = rig.rings
        producer.place(rig.frame(one()))
        os.eventfd_write(bell, 1)
        deadline = time.monotonic() + 5
        while rig.control.load("records") == number and time.monotonic() < deadline:
            time.sleep(0.001)
        assert rig.control.load("records") == number + 1
    os.eventfd_write(inbox, 1)
    awake()


def test_mail_wakes_its_caller(asleep: Asleep) -> None:
    _, awake, inbox, _ = asleep
    os.eventfd_write(inbox, 1)
    awake()


@pytest.mark.parametrize(
    ("word", "role"), [("disk_flags", "clean"), ("flush_error", "flush"), ("failed", "supervisor")]
)
def test_its_caller_decides_when_something_hinders(asleep: Asleep, word: str, role: str) -> None:
    """Before the next frame is appended: the caller chooses the status that it gets."""
    rig, awake, _, bell = asleep
    Control(rig.control.memory, role).own(word).store(1)
    (producer,) = rig.rings
    producer.place(rig.frame(one()))
    os.eventfd_write(bell, 1)
    awake()
    assert rig.control.load("records") == 0


def test_a_sleep_ends_with_its_slice() -> None:
    rig = Rig()
    poll, inbox, bell = sleeping(rig)
    began = time.monotonic()
    assert rig.kernel.run(0, 20_000_000, sleeps=True) == kernel.IDLE
    assert time.monotonic() - began >= 0.02
    poll.close()
    os.close(inbox)
    os.close(bell)


def crowded() -> Rig:
    """A rig that is crowded for good."""
    rig = Rig(cores=0)
    rig.new_ring().place(rig.frame(one()))
    time.sleep(0.002)  # a census takes 1 ms
    rig.run()
    assert rig.control.load("crowded") == 1
    return rig


def test_it_spins_while_it_is_crowded_too() -> None:
    """Not while something computes on its core. Then it is tried again."""
    rig, deadline = crowded(), time.monotonic() + 60
    while rig.kernel.run(10**9, 2_000_000) != kernel.SLICE:
        assert time.monotonic() < deadline, "append does not spin"


@contextlib.contextmanager
def computing_beside() -> Iterator[None]:
    """Another process, which computes on the core on which this thread runs meanwhile."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        with subprocess.Popen([sys.executable, "-SEc", "while True: pass"]) as child:
            try:
                yield
            finally:
                child.kill()
    finally:
        os.sched_setaffinity(0, cores)


def test_while_it_is_crowded_it_sleeps_when_another_process_computes() -> None:
    """Whoever is woken takes the core from such a process. Whoever yields it waits for the end of
    its slice.
    """
    rig = crowded()
    with computing_beside():
        assert rig.kernel.run(60 * 10**9, 30 * 10**9) == kernel.IDLE
