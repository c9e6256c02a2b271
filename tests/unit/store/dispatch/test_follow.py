"""Reput's loop dispatches what comes, and returns when there is something else to see to."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.store_files import Store, message

from silomq.shm._bells import Bells
from silomq.shm._words import OwnedWord
from silomq.shm.metrics import LIMITS_US, METRICS, Metrics
from silomq.shm.ownership import STARTUP
from silomq.store.dispatch import _dispatch as kernel
from silomq.store.dispatch._follow import NEWS, PREPARE, Follower

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Longer than any of these tests takes, ns.
LONG_NS = 3600 * 10**9
SHORT_NS = 20_000_000


class Following:
    """A store of 40 messages that a follower follows; `others` are two words of the test's own."""

    def __init__(self, path: Path, messages: int = 40) -> None:
        self.store = Store(path, [message() for _ in range(messages)])
        self.dispatching = self.store.dispatching()
        self.dispatching.set_bells(Bells())
        self.metrics = Metrics(bytearray(1 << 16), STARTUP)
        self.wrote = self.store.control.own("wrote")
        self.others = [OwnedWord(bytearray(8), 0), OwnedWord(bytearray(8), 0)]
        times = self.metrics.own_times("dispatch_time")
        self.follower = self.dispatching.follower("wrote", [*self.others], times, 0)

    def run(self, *, rests: bool = True, slice_ns: int = LONG_NS, sleep_ns: int = LONG_NS) -> int:
        seen = [word.load() for word in self.others]
        prepared = self.dispatching.is_prepared
        return self.follower.run(
            seen, prepared=prepared, rests=rests, slice_ns=slice_ns, sleep_ns=sleep_ns
        )

    def serve(self, **arguments: Any) -> int:
        """Runs and acts as reput does, until everything is dispatched or a rest ends."""
        while (reason := self.run(**arguments)) not in (kernel.CAUGHT_UP, NEWS):
            if reason == PREPARE:
                self.dispatching.prepare()
            else:
                self.dispatching.act_on(reason)
        return reason

    def write(self, messages: int) -> None:
        self.wrote.store(self.store.ends[messages])

    @property
    def dispatched(self) -> int:
        return self.store.ends.index(self.store.control.load("dispatched"))


@pytest.fixture
def following(tmp_path: Path) -> Following:
    return Following(tmp_path)


@contextmanager
def later(do: Callable[[], object]) -> Iterator[None]:
    thread = threading.Timer(0.05, do)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_it_dispatches_up_to_the_limit(following: Following) -> None:
    following.write(30)
    assert following.serve(rests=False) == kernel.CAUGHT_UP
    assert following.dispatched == 30
    following.write(40)
    assert following.serve(rests=False) == kernel.CAUGHT_UP
    following.store.check()


def test_it_makes_no_file_before_there_is_something_to_dispatch(following: Following) -> None:
    assert following.run(rests=False) == kernel.CAUGHT_UP
    assert not following.dispatching.is_prepared
    following.write(1)
    assert following.run(rests=False) == PREPARE
    assert following.dispatched == 0
    following.dispatching.prepare()
    assert following.dispatching.is_prepared


def test_a_message_wakes_it(following: Following) -> None:
    asleep = following.store.control.word("reput_asleep")
    following.write(10)
    following.serve(rests=False)

    def write() -> None:
        assert asleep.load() == 1
        following.write(11)
        following.wrote.wake()

    with later(write):
        assert following.serve(slice_ns=1) == kernel.CAUGHT_UP
    assert asleep.load() == 0
    assert following.serve(rests=False) == kernel.CAUGHT_UP
    assert following.dispatched == 11


def test_a_sleep_ends_after_its_time(following: Following) -> None:
    assert following.run(slice_ns=1, sleep_ns=SHORT_NS) == kernel.CAUGHT_UP


@pytest.mark.parametrize("which", [0, 1])
def test_it_returns_when_another_word_changes(following: Following, which: int) -> None:
    def change() -> None:
        following.others[which].add(1)
        following.wrote.wake()  # as the supervisor does

    with later(change):
        assert following.run() == NEWS


def test_it_returns_at_once_when_another_word_has_changed(following: Following) -> None:
    following.write(5)
    assert (
        following.follower.run(
            [1, 0], prepared=False, rests=True, slice_ns=LONG_NS, sleep_ns=LONG_NS
        )
        == NEWS
    )
    assert following.dispatched == 0


def test_a_signal_ends_its_sleep(following: Following) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
    try:
        with later(lambda: os.kill(os.getpid(), signal.SIGUSR1)):
            assert following.run() == kernel.CAUGHT_UP
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert came == [signal.SIGUSR1]


def test_its_steps_are_counted(following: Following) -> None:
    for messages in (1, 2, 3, 40):
        following.write(messages)
        following.serve(rests=False)
    times = following.metrics.histogram("dispatch_time")
    assert times.count >= 4
    assert 0 < times.longest_ns <= times.sum_ns
    assert times.counts[0] < times.count or times.longest_ns < 1000 * LIMITS_US[0]
    assert 0 < following.follower.longest_ns <= times.longest_ns


def test_at_a_high_rate_it_naps(tmp_path: Path) -> None:
    """Each wake-up would take time from append."""

    def begin(attempt: int) -> Following:
        (folder := tmp_path / str(attempt)).mkdir()
        following = Following(folder, messages=4000)
        following.write(4000)
        following.serve(slice_ns=1, sleep_ns=1)
        return following

    # A stalled machine makes the rate look low.
    following = next(one for one in map(begin, range(10)) if one.follower.busy)
    time.sleep(0.01)
    following.serve(slice_ns=1, sleep_ns=1)
    assert not following.follower.busy, "nothing has come since"


def test_too_many_words_or_too_little_memory_are_refused(following: Following) -> None:
    kernel_, limit = following.dispatching.kernel, following.wrote
    times = bytearray(METRICS["dispatch_time"][1])
    with pytest.raises(ValueError, match="5 words"):
        Follower(kernel_, 0, limit, limit, [limit] * 5, times, 0)
    with pytest.raises(ValueError, match="100 bytes"):
        Follower(kernel_, 0, limit, limit, [], times[:100], 0)
