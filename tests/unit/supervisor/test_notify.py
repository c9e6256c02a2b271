"""What the service manager is told, byte for byte, and how often."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.service_manager import ServiceManager

from silomq.supervisor import notify
from silomq.supervisor.notify import EXTENDED_S, Notifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    with ServiceManager(tmp_path) as found:
        yield found


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(notify, "time", found)
    return found


def came(manager: ServiceManager) -> list[dict[str, str]]:
    manager.messages.clear()
    manager.forget()
    return [message for _, message in manager.messages]


def test_progress_gives_the_start_more_time(manager: ServiceManager, clock: Clock) -> None:
    notifier = Notifier(manager.environ())
    notifier.progress("scanning (files)", 3, 1200)
    notifier.progress("scanning (files)", 4, 1200)  # at the same instant: not told
    clock.now += 1
    notifier.progress("counting (queues)", 7000)
    usec = str(EXTENDED_S * 1_000_000)
    assert came(manager) == [
        {"EXTEND_TIMEOUT_USEC": usec, "STATUS": "starting: scanning (files): 3 of 1,200"},
        {"EXTEND_TIMEOUT_USEC": usec, "STATUS": "starting: counting (queues): 7,000"},
    ]


def test_a_reload_is_said_with_its_time(manager: ServiceManager, clock: Clock) -> None:
    notifier = Notifier(manager.environ())
    notifier.reloading("reading")
    notifier.ready("line 1\nREADY=0\x1b[31m")
    notifier.say("line 1 READY=0\x1b[31m")  # as before: not told again
    reloading, ready = came(manager)
    assert reloading == {
        "RELOADING": "1", "MONOTONIC_USEC": str(int(clock.now * 1e6)), "STATUS": "reading",
    }  # fmt: skip
    assert ready["READY"] == "1"
    assert ready["MAINPID"] == str(os.getpid())
    assert ready["STATUS"] == r"line 1 READY=0\x1b[31m"


def test_the_watchdog_is_fed_four_times_in_half_its_time(
    manager: ServiceManager, clock: Clock
) -> None:
    notifier = Notifier(manager.environ(watchdog_s=8.0))
    assert notifier.watchdog_s == 4.0
    for _ in range(40):
        notifier.feed()
        clock.now += 0.1
    assert came(manager) == [{"WATCHDOG": "1"}] * 4


@pytest.mark.parametrize("usec", ["", "0", "many", "-5"])
def test_without_a_watchdog_nothing_is_fed(manager: ServiceManager, usec: str) -> None:
    notifier = Notifier({**manager.environ(), "WATCHDOG_USEC": usec})
    notifier.feed()
    assert notifier.watchdog_s is None
    assert came(manager) == []


def test_the_watchdog_of_another_process_is_not_ours(manager: ServiceManager) -> None:
    environ = {**manager.environ(watchdog_s=8.0), "WATCHDOG_PID": "1"}
    assert Notifier(environ).watchdog_s is None


def test_a_manager_that_is_gone_is_no_error(manager: ServiceManager) -> None:
    notifier = Notifier(manager.environ())
    manager.path.unlink()
    notifier.ready("x")
    Notifier({}).ready("x")


def test_a_manager_that_does_not_read_holds_nobody_up(
    manager: ServiceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "_PATIENCE_S", 0.001)
    notifier = Notifier(manager.environ())
    with open("/proc/sys/net/unix/max_dgram_qlen", encoding="ascii") as found:
        fills = int(found.read()) + 5
    for _ in range(fills):
        notifier.send(watchdog=1)
    notifier.ready("running")
    notifier.send(watchdog=1)
    manager.forget()
    assert "READY" not in str(manager.messages)
    notifier.send(watchdog=1)
    assert manager.next(1.0)["READY"] == "1"
    assert manager.next(1.0)["WATCHDOG"] == "1"


@pytest.mark.parametrize("usec", ["", "0", "x", "\u00b2", "9" * 5000, "-1"])
def test_a_time_that_makes_no_sense_is_no_watchdog(usec: str) -> None:
    assert Notifier({"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": usec}).watchdog_s is None


def test_descriptors_are_kept_and_forgotten_by_name(manager: ServiceManager) -> None:
    notifier = Notifier(manager.environ())
    page = os.memfd_create("test")
    assert notifier.keep("a", [page, page])
    assert notifier.keep("b", [page])
    assert notifier.forget("b")
    assert [message["FDPOLL"] for message in came(manager)[:2]] == ["0", "0"]
    assert {name: len(fds) for name, fds in manager.kept.items()} == {"a": 2}
    os.close(page)


def test_a_manager_that_does_not_read_is_told_of(
    manager: ServiceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller tries again: nothing is put by, because a descriptor may be closed meanwhile."""
    monkeypatch.setattr(notify, "_PATIENCE_S", 0.01)
    notifier = Notifier(manager.environ())
    told = 0
    while notifier.forget("a"):
        told += 1
        assert told < 1000, "the socket never fills"
    assert len(came(manager)) == told
    assert notifier.forget("a")
    assert not Notifier({"NOTIFY_SOCKET": "@silomq-nobody-listens"}).forget("a")
