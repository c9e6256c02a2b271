"""Ctrl-C while lines are sent: it ends the wait for input, and comes between nothing else."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from silomq.cli.running.send_lines import _Input

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def as_a_command_has_it() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_waits_for_the_next_read() -> None:
    with _Input() as source:
        press()  # as if a batch were being sent
        with pytest.raises(KeyboardInterrupt):
            source.read()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_the_second_does_not_wait() -> None:
    with _Input():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _Input():
        press()
        press()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
