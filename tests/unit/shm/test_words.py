"""Words: who may store, and that every wait ends, by a wake-up or by itself."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from silomq.shm._memory import Mapping
from silomq.shm._words import MOST_WORDS, OwnedWord, Word, values, wait_any

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_S = 20.0
SOON_S = 10.0


@pytest.fixture
def shared() -> tuple[Mapping, Mapping]:
    """One page of memory: mapped for writing, and read-only."""
    fd = os.memfd_create("test-words", os.MFD_CLOEXEC)
    os.ftruncate(fd, 4096)
    mappings = Mapping(fd, 0, 4096), Mapping(fd, 0, 4096, False)
    os.close(fd)
    return mappings


def in_child(work: Callable[[], object]) -> int:
    """Forks a child that does `work` and exits with 0, or 1 if that raised: its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def ended_well(pid: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_reader_cannot_store(shared: tuple[Mapping, Mapping]) -> None:
    word = Word(shared[0], 0)
    for name in ("store", "add", "publish"):
        assert not hasattr(word, name)
    assert issubclass(OwnedWord, Word)


def test_an_owner_needs_writable_memory(shared: tuple[Mapping, Mapping]) -> None:
    with pytest.raises(TypeError, match="writable"):
        OwnedWord(shared[1], 0)
    with pytest.raises(TypeError, match="writable"):
        OwnedWord(bytes(8), 0)


def test_what_is_stored_is_seen(shared: tuple[Mapping, Mapping]) -> None:
    own, word = OwnedWord(shared[0], 64), Word(shared[1], 64)
    for value in (0, 1, 2**32, 2**63, 2**64 - 1):
        own.store(value)
        assert word.load() == own.load() == value
    own.add(2)
    assert word.load() == 1
    with pytest.raises(OverflowError):
        own.store(2**64)
    with pytest.raises(OverflowError):
        own.store(-1)
    assert bytes(memoryview(shared[0])[64:72]) == b"\1" + bytes(7)


@pytest.mark.parametrize("offset", [1, 4, 7, 4089, 4096, 8192])
def test_a_word_lies_aligned_within_its_memory(
    offset: int, shared: tuple[Mapping, Mapping]
) -> None:
    with pytest.raises(ValueError, match="no aligned word"):
        Word(shared[0], offset)


def test_a_wait_ends_by_itself(shared: tuple[Mapping, Mapping]) -> None:
    word = Word(shared[1], 0)
    for timeout in (0.05, 0.0, -1.0):
        start = time.monotonic()
        word.wait(0, timeout)
        assert max(0, timeout) * 0.9 <= time.monotonic() - start < SOON_S


def test_a_wait_for_what_has_changed_does_not_sleep(shared: tuple[Mapping, Mapping]) -> None:
    start = time.monotonic()
    Word(shared[1], 0).wait(1, LONG_S)
    wait_any([Word(shared[1], 0), Word(shared[1], 8)], [0, 5], LONG_S)
    assert time.monotonic() - start < SOON_S


def test_a_wait_looks_at_the_low_half_only(shared: tuple[Mapping, Mapping]) -> None:
    """Positions differ by less than 4 GiB between two looks, or the sleeper looks again anyway."""
    OwnedWord(shared[0], 0).store(2**32)
    start = time.monotonic()
    Word(shared[1], 0).wait(0, 0.05)
    assert time.monotonic() - start >= 0.04


def test_publish_wakes_a_sleeper_of_another_process(shared: tuple[Mapping, Mapping]) -> None:
    own, asleep = OwnedWord(shared[0], 0), OwnedWord(shared[0], 128)
    word = Word(shared[1], 0)

    def sleeper() -> None:
        start = time.monotonic()
        while word.load() == 0:
            word.sleep(0, LONG_S, asleep)
        assert time.monotonic() - start < SOON_S

    pid = in_child(sleeper)
    while not asleep.load():
        time.sleep(0.001)
    time.sleep(0.02)
    own.publish(5, Word(shared[0], 128))
    assert ended_well(pid)
    assert asleep.load() == 0


def test_wake_reaches_a_wait_on_read_only_memory(shared: tuple[Mapping, Mapping]) -> None:
    own, word = OwnedWord(shared[0], 0), Word(shared[1], 0)
    ready = OwnedWord(shared[0], 256)

    def sleeper() -> None:
        start = time.monotonic()
        ready.store(1)
        word.wait(0, LONG_S)
        assert word.load() == 1
        assert time.monotonic() - start < SOON_S

    pids = [in_child(sleeper) for _ in range(3)]
    while not ready.load():
        time.sleep(0.001)
    time.sleep(0.05)
    own.store(1)
    own.wake()
    assert [ended_well(pid) for pid in pids] == [True] * 3


def test_publish_does_not_lose_a_wake_up(shared: tuple[Mapping, Mapping]) -> None:
    """A thousand turns of ping and pong between two processes, each asleep in its turn."""
    ping, pong = OwnedWord(shared[0], 0), OwnedWord(shared[0], 128)
    asleep = [OwnedWord(shared[0], 256), OwnedWord(shared[0], 384)]

    def child() -> None:
        for turn in range(1, 1001):
            while ping.load() < turn:
                ping.sleep(turn - 1, LONG_S, asleep[0])
            pong.publish(turn, asleep[1])

    start = time.monotonic()
    pid = in_child(child)
    for turn in range(1, 1001):
        ping.publish(turn, asleep[0])
        while pong.load() < turn:
            pong.sleep(turn - 1, LONG_S, asleep[1])
    assert ended_well(pid)
    assert time.monotonic() - start < LONG_S


def test_sleep_looks_again_before_it_sleeps(shared: tuple[Mapping, Mapping]) -> None:
    asleep = OwnedWord(shared[0], 128)
    start = time.monotonic()
    Word(shared[1], 0).sleep(7, LONG_S, asleep)
    assert time.monotonic() - start < SOON_S
    assert asleep.load() == 0


def test_sleep_looks_for_mail_before_it_sleeps(shared: tuple[Mapping, Mapping]) -> None:
    asleep, mail = OwnedWord(shared[0], 128), OwnedWord(shared[0], 192)
    mail.store(4)
    start = time.monotonic()
    Word(shared[1], 0).sleep(0, LONG_S, asleep, mail, 3)
    assert time.monotonic() - start < SOON_S
    assert asleep.load() == 0
    Word(shared[1], 0).sleep(0, 0.05, asleep, mail, 4)
    assert time.monotonic() - start >= 0.05


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_wait_any_ends_when_any_word_changes(changed: int, shared: tuple[Mapping, Mapping]) -> None:
    words = [Word(shared[1], 64 * i) for i in range(3)]
    own = OwnedWord(shared[0], 64 * changed)

    def change() -> None:
        time.sleep(0.05)
        own.store(9)
        own.wake()

    thread = threading.Thread(target=change)
    start = time.monotonic()
    thread.start()
    while not any(word.load() for word in words):
        wait_any(words, [0, 0, 0], LONG_S)
    assert time.monotonic() - start < SOON_S
    thread.join()


def test_values_of_words(shared: tuple[Mapping, Mapping]) -> None:
    OwnedWord(shared[0], 8).store(2**64 - 1)
    assert values([Word(shared[1], 8), Word(shared[1], 0)]) == [2**64 - 1, 0]
    assert values([]) == []
    with pytest.raises(TypeError):
        values([Word(shared[1], 8), 8])  # type: ignore[list-item]


def test_wait_any_ends_by_itself(shared: tuple[Mapping, Mapping]) -> None:
    words = [Word(shared[1], 8 * i) for i in range(MOST_WORDS)]
    start = time.monotonic()
    wait_any(words, [0] * MOST_WORDS, 0.05)
    wait_any(words, [0] * MOST_WORDS, 0.0)
    wait_any([], [], LONG_S)
    assert time.monotonic() - start < SOON_S
    with pytest.raises(ValueError, match="129 words"):
        wait_any([words[0]] * 129, [0] * 129, 1.0)
    with pytest.raises(TypeError):
        wait_any([3], [0], 1.0)  # type: ignore[list-item]
