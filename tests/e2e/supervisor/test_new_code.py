"""The code of a running store is replaced under load, by releases that come up and others that do
not.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from support.checking.messages import check_store
from support.checking.sent import Sent
from support.commands import SILO, sentence, silo
from support.configured_stores import ConfiguredStore
from support.harness import LONG, WAIT_S, StoreProcess, eventually, kill_now, lives
from support.load.consumers import Consumers
from support.load.producers import Producers
from support.releases import Edits, Releases
from support.service_manager import ServiceManager

from silomq import Admin, Producer
from silomq.shm.control import ACTORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    found = Releases(tmp_path / "releases")
    found.install("first")
    return found


def running(store: StoreProcess, releases: Releases) -> set[str]:
    """The releases that the processes of a store run."""
    return set().union(*(releases.of(pid) for pid in (store.running.pid, *store.pids().values())))


def reload_code(store: StoreProcess, *more: str, trial_s: float = 0.0) -> dict[str, float]:
    done = silo("reload", "--code", "--trial", str(trial_s), "--json", *more, store=store.path)
    stalls: dict[str, float] = json.loads(done.stdout)["stalls_ms"]
    return stalls


class Prober:
    """Sends one message after another, and knows the longest wait for an acknowledgement (s)."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._over = threading.Event()
        self._longest_s = 0.0
        self._errors: list[str] = []
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        try:
            with Producer(self._store) as producer:
                while not self._over.wait(0.001):
                    began = time.monotonic()
                    producer.send("probe", b"x")
                    self._longest_s = max(self._longest_s, time.monotonic() - began)
        except Exception:  # noqa: BLE001 # the test reports it
            self._errors.append(traceback.format_exc())

    def finish(self) -> float:
        self._over.set()
        self._thread.join()
        assert not self._errors, self._errors[0]
        return self._longest_s

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("times", "settings"),
    [
        (2, {}),
        pytest.param(20, {}, marks=LONG),
        pytest.param(3, {"flush_disk_type": "SYNC_FLUSH"}, marks=LONG),
        pytest.param(3, {"transient_store_pool_enable": "true"}, marks=LONG),
    ],
)
def test_new_code_under_load(
    tmp_path: Path, releases: Releases, times: int, settings: dict[str, Any]
) -> None:
    store = StoreProcess(tmp_path / "store", environ=releases.environ, **settings)
    sent = Sent()
    with store:
        with Admin(store.path) as admin:
            admin.create_topic("t")
        with (
            Prober(store.path) as prober,
            Producers(store, ["t"], rate=400.0) as producers,
            Consumers(store.path, "t", ("one", "two")) as consumers,
        ):
            producers.await_flow()
            assert running(store, releases) == {"first"}
            sessions = 6  # three producers, two members, and the prober
            eventually(lambda: store.control.load("sessions") == sessions, "all are there")
            opened = len(list(Path(f"/proc/{store.running.pid}/fd").iterdir()))
            worst: dict[str, float] = {}
            for number in range(times):
                name = f"release{number}"
                releases.install(name)
                before, pid = store.pids(), store.running.pid
                stalls = reload_code(store)
                assert set(stalls) == {*ACTORS, "supervisor"}
                worst = {actor: max(stall, worst.get(actor, 0)) for actor, stall in stalls.items()}
                assert running(store, releases) == {name}
                assert store.running.pid == pid, "the supervisor is the same process"
                assert not set(before.values()) & set(store.pids().values())
                assert store.control.load("sessions") == sessions
                with Admin(store.path) as admin:  # a new session reaches every process
                    assert admin.status()["state"] == "RUNNING"
                producers.await_flow(200)
            longest = max(worst, key=worst.__getitem__)
            print(f"longest stall in {times} changes: {longest}, {worst[longest]:.1f} ms: {worst}")
            print(f"longest wait for an acknowledgement: {prober.finish() * 1000:.1f} ms")
            sent.add(producers.finish())
            check_store(store, sent, ["t"], beside="probe")
            consumers.finish(len(sent.acks) + len(sent.oneway))
        left = len(list(Path(f"/proc/{store.running.pid}/fd").iterdir()))
        assert left <= opened, "the supervisor holds descriptors of the code before it"
        assert "actor died" not in store.log_path.read_text()
        store.replace("append")  # the new supervisor sees deaths, and forks
        with Producer(store.path) as producer:
            producer.send("t2", b"x")


# -- releases that do not come up

#: Releases with a defect: edits, and what `silo reload --code` says.
UNTOUCHED: dict[str, tuple[Mapping[str, Edits], str]] = {
    "import": (
        {"actors/flush.py": ("from __future__ import annotations\n", "import no_such_module\n")},
        "the new code does not start: ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "layout": (
        {
            "shm/ring.py": (
                'LAYOUTS = {"ring": RING,',
                'LAYOUTS = {"ring": {**RING, "x": (999, 8)},',
            )
        },
        "cannot run beside the running one, because these differ: shm.ring: ring; ",
    ),
    "supervisor": (
        {
            "supervisor/takeover.py": (
                "    change = _take_change(",
                "    raise OSError('planted')\n    change = _take_change(",
            )
        },
        "the new code cannot take over the running store: planted; nothing was changed",
    ),
}
_FLUSH_RUN = "    def run(self) -> None:\n"
TAKEN_BACK: dict[str, tuple[Mapping[str, Edits], str]] = {
    "setup": (
        {
            "actors/reput.py": (
                "    def setup(self) -> None:\n",
                "    def setup(self) -> None:\n        raise SystemExit(9)\n",
            )
        },
        "the new reput ended before it served (exit status 9); all processes run the old code",
    ),
    "hangs": (
        {
            "actors/append.py": (
                "    def setup(self) -> None:\n",
                "    def setup(self) -> None:\n        import time; time.sleep(3600)\n",
            )
        },
        "the new append did not begin to serve within 2 s; all processes run the old code again",
    ),
    "crashes": (
        {
            "actors/flush.py": (
                _FLUSH_RUN,
                f"{_FLUSH_RUN}        import time; time.sleep(0.5); raise SystemExit(9)\n",
            )
        },
        "the new flush ended on trial (exit status 9); all processes run the old code again",
    ),
}


@pytest.fixture
def impatient(tmp_path: Path) -> Releases:
    """The running release gives new code little time."""
    found = Releases(tmp_path / "releases")
    edits = {"supervisor/new_code.py": ("_READY_S: Final = 5.0", "_READY_S: Final = 2.0")}
    found.install("first", edits)
    return found


def test_a_release_that_does_not_come_up(tmp_path: Path, impatient: Releases) -> None:
    """It leaves the old one running, and says why."""
    store = StoreProcess(tmp_path / "store", environ=impatient.environ)
    with store, Producers(store, ["t"], rate=300.0) as producers:
        producers.await_flow(100)
        supervisor = store.running.pid
        for name, (edits, why) in {**UNTOUCHED, **TAKEN_BACK}.items():
            pids = store.pids()
            impatient.install(name, edits)
            done = silo("reload", "--code", "--trial", "1", store=store.path, status=1)
            last = done.stderr.decode().splitlines()[-1]
            assert why in last, last
            assert last.startswith("silo: the code was not replaced: ")
            assert done.stdout == b""
            assert (store.pids() == pids) == (name in UNTOUCHED), name
            assert store.all_ready()
            assert running(store, impatient) == {"first"}
            assert store.running.pid == supervisor
            producers.await_flow(50)
        impatient.install("good")
        reload_code(store)
        assert running(store, impatient) == {"good"}
        sent = producers.finish()
        check_store(store, sent, ["t"])
        store.log_path.write_text("")  # the tracebacks of the defects are expected


# -- ends in the middle of a change


class Change:
    """A change of code under way, as a process."""

    def __init__(self, store: StoreProcess, *, trial_s: float = 1.0) -> None:
        more = ["--trial", str(trial_s), "--store", str(store.path)]
        command = [*SILO, "reload", "--code", *more]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def await_step(self, text: str) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"the change ended before: {text}")

    def end(self) -> str:
        """What it said last."""
        _, rest = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 1
        return rest.splitlines()[-1]


def await_end(family: list[int]) -> None:
    eventually(lambda: not any(map(lives, family)), "all processes end", 10)


STEPS = ("the new code is", "append runs the new code", "on trial", "the supervisor executes")


@pytest.mark.parametrize("steps", [STEPS[1::2], pytest.param(STEPS, marks=LONG)])
def test_kills_of_the_supervisor_in_the_middle_of_a_change(
    tmp_path: Path, releases: Releases, steps: tuple[str, ...]
) -> None:
    """All processes of both releases end with it. The next start loses nothing."""
    store = StoreProcess(tmp_path / "store", environ=releases.environ)
    releases.install("second")
    sent = Sent()
    with store:
        for number, step in enumerate(steps):
            with Producers(store, ["t"], first=3 * number, rate=300.0, ending=True) as producers:
                producers.await_flow(50)
                change = Change(store)
                change.await_step(step)
                family = store.family()
                time.sleep(0.1 * (step == STEPS[-1]))  # while the new code imports its modules
                kill_now(store.running.pid)
                store.running.wait(WAIT_S)
                await_end(family)
                assert "ended during the change" in change.end()
                sent.add(producers.finish())
            store.start()
            check_store(store, sent, ["t"], others=True)


#: When a stop is asked for, s: before the exec, during it, and behind it.
PAUSES_S = [0.0, 0.15, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4]


@pytest.mark.parametrize("pauses_s", [PAUSES_S[:2], pytest.param(PAUSES_S, marks=LONG)])
def test_a_stop_in_a_change(tmp_path: Path, releases: Releases, pauses_s: list[float]) -> None:
    store = StoreProcess(tmp_path / "store", environ=releases.environ)
    releases.install("second")
    for step, pause_s in [("append runs the new code", 0.0)] + [("executes", p) for p in pauses_s]:
        with store:
            change = Change(store, trial_s=0)
            change.await_step(step)
            time.sleep(pause_s)
            store.running.send_signal(signal.SIGTERM)
            assert store.running.wait(WAIT_S) == 0, store.log()
            change.process.communicate(timeout=WAIT_S)
            assert "Traceback" not in store.log()


# -- ways to run a store


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    with ServiceManager(tmp_path) as found:
        yield found


def test_new_code_goes_on_as_a_service(
    tmp_path: Path, releases: Releases, manager: ServiceManager
) -> None:
    """The watchdog is fed, settings are read again from where they came from, and a later change
    works too.
    """
    environ = {**releases.environ, **manager.environ(watchdog_s=4.0)}
    with StoreProcess(tmp_path / "store", environ=environ) as store:
        manager.await_key("READY", WAIT_S)
        for name in ("second", "third"):
            releases.install(name)
            reload_code(store)
            assert running(store, releases) == {name}
            assert silo("reload", store=store.path).stdout == b"nothing has changed\n"
        assert not manager.watchdog_expires(4.0, within_s=4.5)
        silo("restart", "registry", store=store.path)
        assert running(store, releases) == {"third"}


def test_changes_that_wait_are_made_by_the_new_code(tmp_path: Path, releases: Releases) -> None:
    with StoreProcess(tmp_path / "store", environ=releases.environ) as store:
        releases.install("second")
        first = Change(store, trial_s=0)
        first.await_step("allocate runs")
        append = store.pid("append")
        waiting = subprocess.Popen([*SILO, "restart", "append", "--store", str(store.path)])
        first.await_step("the supervisor executes")
        new = store.pid("append")
        assert new != append
        assert waiting.wait(WAIT_S) == 0
        assert store.pid("append") != new
        first.process.communicate(timeout=WAIT_S)
        assert first.process.returncode == 0
        assert running(store, releases) == {"second"}


def test_a_hang_up_during_an_exec(tmp_path: Path, releases: Releases) -> None:
    """It is not lost."""
    store = ConfiguredStore(tmp_path / "store", environ=releases.environ)
    store.file.write_text("")
    with store:
        releases.install("second")
        change = Change(store, trial_s=0)
        change.await_step("the supervisor executes")
        store.file.write_text("append_spin_us = 0\n")
        time.sleep(0.1)
        store.running.send_signal(signal.SIGHUP)
        change.process.communicate(timeout=WAIT_S)
        eventually(lambda: '"changed": ["append_spin_us"]' in store.log(), "it is read", 5)
        assert change.process.returncode == 0
        assert running(store, releases) == {"second"}


def test_what_is_asked_for_wrongly_is_refused(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        pids = store.pids()
        for more in (["--trial", "5"], ["--code", "--trial", "-1"], ["--code", "--trial", "x"]):
            sentence(silo("reload", *more, store=store.path, status=2))
        assert store.pids() == pids
    sentence(silo("reload", "--code", store=store.path, status=1))
