"""The life of a store under a service manager: start, slow recovery, reload, watchdog, stop."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.messages import check_store
from support.checking.sent import Sent
from support.configured_stores import ConfiguredStore
from support.harness import PYTHON, WAIT_S, StoreProcess, eventually
from support.load.producers import Producers
from support.service_manager import ServiceManager

from silomq import Producer
from silomq.shm.control import StoreState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WATCHDOG_S = 1.5
#: A process is missed after 2.5 s (`supervisor/soundness.py`); the rest is for a busy machine.
STARVED_S = 15.0


def said(store: StoreProcess, event: str) -> list[dict[str, Any]]:
    lines = store.log_path.read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [line for line in found if line["event"] == event]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    with ServiceManager(tmp_path) as found:
        yield found


class SlowScan(StoreProcess):
    """Each file of the log takes 0.6 s to scan."""

    planted = """
import time
from silomq.store.commitlog import log_end
fast = log_end.kernel.scan
class Slow:
    def __getattr__(self, name):
        return getattr(kernel, name)
    def scan(self, *arguments, **words):
        time.sleep(0.6)
        return fast(*arguments, **words)
kernel, log_end.kernel = log_end.kernel, Slow()
"""


class Hung(StoreProcess):
    """Recovery hangs before its first file."""

    planted = """
import time
from silomq.store.commitlog import log_end
class Hung:
    def __getattr__(self, name):
        return getattr(kernel, name)
    def scan(self, *arguments, **words):
        time.sleep(60)
kernel, log_end.kernel = log_end.kernel, Hung()
from silomq.supervisor import notify
notify.EXTENDED_S = 1
"""


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """The folder of a store with five log files, none of which is durable."""
    with StoreProcess(tmp_path / "store", flush_interval_commit_log_ms=60_000) as store:
        with Producer(store.path) as producer:
            for _ in range(45):
                producer.send("t", bytes(100_000))
        store.crash()
        for name in os.listdir("/dev/shm"):  # as after a boot: the log must be scanned
            if f"{store.store_id:016x}" in name:
                os.unlink(f"/dev/shm/{name}")
    return store.path


def test_a_store_speaks_from_its_start_to_its_end(tmp_path: Path, manager: ServiceManager) -> None:
    store = StoreProcess(tmp_path / "store", environ=manager.environ(watchdog_s=1.0))
    store.launch()
    try:
        first = manager.next(WAIT_S)
        assert first["STATUS"].startswith("starting: ")
        assert int(first["EXTEND_TIMEOUT_USEC"]) > 0
        ready = manager.await_key("READY", WAIT_S)
        assert ready["MAINPID"] == str(store.running.pid)
        assert store.control.load("state") == StoreState.RUNNING
        with Producer(store.path) as producer:  # at once, without trying again
            producer.send("t", b"x")
        assert not manager.watchdog_expires(1.0, within_s=2.0)
        store.running.send_signal(signal.SIGTERM)
        stopping = manager.await_key("STOPPING")
        assert int(stopping["EXTEND_TIMEOUT_USEC"]) > 30e6  # stop_timeout_ms
        assert store.running.wait(WAIT_S) == 0
        manager.forget()
        assert not [m for _, m in manager.messages[-3:] if "READY" in m]
    finally:
        store.clean_up()


def test_a_slow_recovery_lasts_as_long_as_it_makes_progress(
    crashed: Path, manager: ServiceManager
) -> None:
    store = SlowScan(crashed, environ=manager.environ())
    store.launch()
    try:
        manager.next(WAIT_S)  # the interpreter has started
        assert manager.start_lasts(1.5), "the manager has ended the start"
        steps = [m["STATUS"] for _, m in manager.messages if "EXTEND_TIMEOUT_USEC" in m]
        scanned = [step for step in steps if "scanning the commit log (files)" in step]
        assert len(scanned) >= 3, steps
        assert scanned == sorted(scanned)
        eventually(store.all_ready, "all serve")
        store.stop()
    finally:
        store.clean_up()


def test_a_recovery_that_hangs_is_not_extended(crashed: Path, manager: ServiceManager) -> None:
    store = Hung(crashed, environ=manager.environ())
    store.launch()
    try:
        manager.next(WAIT_S)
        assert not manager.start_lasts(1.5)
        store.running.kill()
        store.running.wait(WAIT_S)
    finally:
        store.clean_up()


def test_a_stopped_actor_starves_the_watchdog(tmp_path: Path, manager: ServiceManager) -> None:
    """Here the supervisor itself would wait for ten minutes."""
    environ = manager.environ(watchdog_s=WATCHDOG_S)
    with StoreProcess(tmp_path / "store", environ=environ, heartbeat_timeout_ms=600_000) as store:
        manager.await_key("READY")
        assert not manager.watchdog_expires(WATCHDOG_S, within_s=WATCHDOG_S + 0.5)
        for actor in ("append", "flush", "reput", "registry"):
            manager.messages.clear()
            pid = store.kill(actor, signal.SIGSTOP)
            assert manager.watchdog_expires(WATCHDOG_S, within_s=STARVED_S)
            status = (m.get("STATUS", "") for _, m in manager.messages)
            told = [text for text in status if text.startswith("no progress: ")]
            assert told, actor
            assert actor in told[-1]
            os.kill(pid, signal.SIGCONT)
            assert manager.await_key("WATCHDOG") == {"WATCHDOG": "1"}
        manager.forget()
        assert not manager.watchdog_expires(WATCHDOG_S, within_s=WATCHDOG_S + 0.5)


def test_an_actor_that_is_replaced_does_not_starve_it_and_a_crash_loop_does(
    tmp_path: Path, manager: ServiceManager
) -> None:
    environ = manager.environ(watchdog_s=2 * WATCHDOG_S)
    with StoreProcess(tmp_path / "store", environ=environ, heartbeat_timeout_ms=1500) as store:
        manager.await_key("READY")
        pid = store.kill("append", signal.SIGSTOP)
        assert not manager.watchdog_expires(2 * WATCHDOG_S, within_s=2 * WATCHDOG_S + 1)
        store.await_successor("append", pid)
        over = threading.Event()

        def kill_again_and_again() -> None:
            while not over.is_set():
                eventually(lambda: store.is_ready("reput"), "reput serves")
                store.kill("reput")
                time.sleep(0.02)

        killer = threading.Thread(target=kill_again_and_again)
        killer.start()
        try:
            assert manager.watchdog_expires(2 * WATCHDOG_S, within_s=2 * STARVED_S)
        finally:
            over.set()
            killer.join()


# -- reload


def reload(store: StoreProcess, manager: ServiceManager) -> tuple[dict[str, str], dict[str, str]]:
    """What the manager hears at the begin and at the end of a reload."""
    before = time.monotonic_ns() // 1000
    store.running.send_signal(signal.SIGHUP)
    begun = manager.await_key("RELOADING")
    assert before <= int(begun["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
    return begun, manager.await_key("READY")


def test_a_reload_changes_what_may_change(tmp_path: Path, manager: ServiceManager) -> None:
    store = ConfiguredStore(tmp_path / "store", environ=manager.environ())
    store.file.write_text("")
    with store, Producer(store.path) as producer:
        manager.await_key("READY")
        pids = store.pids()
        store.file.write_text(
            'log_level = "warning"\nfile_reserved_time_h = 7\nappend_spin_us = 0\nmax_batch = 1\n'
        )
        _, over = reload(store, manager)
        assert "max_batch" in over["STATUS"]
        assert store.pids() == pids, "a bad file changes nothing"
        text = "file_reserved_time_h = 7\nappend_spin_us = 0\nproducer_spin_us = 1\n"
        store.file.write_text(text)
        _, over = reload(store, manager)
        assert over["STATUS"] == (
            "changed: append_spin_us, file_reserved_time_h; need a restart: producer_spin_us"
        )
        after = store.pids()
        changed = {actor for actor in pids if pids[actor] != after[actor]}
        assert changed == {"append", "clean", "transactions"}
        producer.send("t", b"x")
        (line,) = said(store, "read the settings again")
        assert line["need_a_restart"] == ["producer_spin_us"]
        assert not said(store, "actor died, replacing it")
        _, over = reload(store, manager)
        assert over["STATUS"] == "need a restart: producer_spin_us"
        assert store.pids() == after


def test_settings_that_do_not_go_together_are_refused(
    tmp_path: Path, manager: ServiceManager
) -> None:
    """ring_size may change at run time, ring_size_max may not."""
    store = ConfiguredStore(tmp_path / "store", environ=manager.environ())
    store.file.write_text('ring_size = "1MiB"\nring_size_max = "1MiB"\n')
    with store:
        manager.await_key("READY")
        pids = store.pids()
        store.file.write_text('ring_size = "2MiB"\nring_size_max = "4MiB"\n')
        _, over = reload(store, manager)
        assert "nothing changes: ring_size" in over["STATUS"]
        assert "at most ring_size_max = 1048576" in over["STATUS"]
        assert store.pids() == pids


class BadReput(ConfiguredStore):
    """A store whose append does not start with one of the values that are allowed."""

    @property
    def command(self) -> list[str]:
        code = (
            "import sys; from silomq.actors.append import Append\n"
            "class Defect(Append):\n"
            "    def setup(self):\n"
            "        assert self.settings.append_spin_us != 77\n"
            "        super().setup()\n"
            "from silomq.supervisor.processes import CLASSES\n"
            "CLASSES['append'] = Defect\n"
            "from silomq.cli.main import main\n"
            "sys.exit(main(sys.argv[1:]))"
        )
        return [*PYTHON, "-c", code, *super().command[len(PYTHON) + 2 :]]


def test_a_setting_with_which_an_actor_does_not_start_is_taken_back(
    tmp_path: Path, manager: ServiceManager
) -> None:
    store = BadReput(tmp_path / "store", environ=manager.environ())
    store.file.write_text("")
    with store, Producer(store.path) as producer:
        manager.await_key("READY")
        store.file.write_text("append_spin_us = 77\n")
        _, over = reload(store, manager)
        assert "append does not start with the new settings: nothing changes" in over["STATUS"]
        eventually(store.all_ready, "all serve")
        producer.send("t", b"x")
        store.log_path.write_text("")  # the traceback of the defect is expected


def test_a_stop_under_load_and_a_start_after_a_kill(
    tmp_path: Path, manager: ServiceManager
) -> None:
    store = StoreProcess(tmp_path / "store", environ=manager.environ(watchdog_s=WATCHDOG_S))
    sent = Sent()
    with store:
        manager.await_key("READY")
        with Producers(store, ["t"], ending=True) as producers:
            producers.await_flow()
            store.running.send_signal(signal.SIGTERM)
            manager.await_key("STOPPING")
            assert store.running.wait(WAIT_S) == 0
            sent.add(producers.finish())
        store.start()
        manager.await_key("READY")
        with Producers(store, ["t"], ending=True, first=3) as producers:
            producers.await_flow()
            store.crash()
            sent.add(producers.finish())
        store.start()
        assert manager.await_key("READY")["STATUS"] == "accepting messages"
        check_store(store, sent, ["t"], others=True)


# -- a store and its broker


class WithBroker(StoreProcess):
    """A store with a broker beside it, as one service."""

    with_broker = True


def test_a_store_with_a_broker_proves_its_progress_too(
    tmp_path: Path, manager: ServiceManager
) -> None:
    environ = manager.environ(watchdog_s=WATCHDOG_S)
    store = WithBroker(tmp_path / "store", environ=environ, heartbeat_timeout_ms=600_000)
    store.launch()
    try:
        assert manager.next(WAIT_S)["STATUS"].startswith("starting: ")
        ready = manager.await_key("READY")
        assert ready["MAINPID"] == str(store.running.pid)
        assert ready["STATUS"] == "serving clients"
        assert not manager.watchdog_expires(WATCHDOG_S, within_s=WATCHDOG_S + 0.5)
        store.running.send_signal(signal.SIGHUP)
        assert manager.await_key("RELOADING")["MONOTONIC_USEC"]
        manager.await_key("READY")
        pid = store.kill("reput", signal.SIGSTOP)
        assert manager.watchdog_expires(WATCHDOG_S, within_s=STARVED_S)
        os.kill(pid, signal.SIGCONT)
        manager.await_key("WATCHDOG")
        store.running.send_signal(signal.SIGTERM)
        manager.await_key("STOPPING")
        assert store.running.wait(WAIT_S) == 0
    finally:
        if store.running.poll() is None:
            store.running.send_signal(signal.SIGTERM)
            store.running.wait(WAIT_S)
        store.clean_up()
