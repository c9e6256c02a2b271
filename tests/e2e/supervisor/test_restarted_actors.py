"""`silo restart` and `silo reload` of a store under load."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
from support.checking.messages import check_store
from support.commands import sentence, silo
from support.configured_stores import ConfiguredStore
from support.harness import PYTHON, WAIT_S, StoreProcess, kill_now
from support.load.producers import Producers

from silomq import Admin, IllegalMessage, StoreError
from silomq.shm.control import ACTORS

if TYPE_CHECKING:
    from pathlib import Path


def test_each_actor_is_restarted_under_load(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store")
    with store, Producers(store, ["t"]) as producers:
        producers.await_flow()
        for actor in ACTORS:
            before, records = store.pids(), store.control.load("records")
            done = silo("restart", actor, "--json", store=store.path)
            assert json.loads(done.stdout)["stalls_ms"][actor] > 0
            after = store.pids()
            assert [name for name in ACTORS if before[name] != after[name]] == [actor]
            assert store.all_ready()
            producers.await_flow(100)
            assert store.control.load("records") > records
        sent = producers.finish()
        assert "actor died" not in store.log()
        check_store(store, sent, ["t"])


def test_a_killed_registry_does_not_lose_the_outcome(tmp_path: Path) -> None:
    """The supervisor tells the client itself, also when the registry is another one."""
    with StoreProcess(tmp_path / "store") as store, Admin(store.path) as admin:
        for _ in range(5):
            pid = store.pid("append")
            kill_now(store.pid("registry"))
            assert admin.restart("append") > 0
            assert store.pid("append") != pid
            store.await_successor("registry", 0)


def test_what_cannot_be_restarted_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        pids = store.pids()
        for name in ("supervisor", "", "append\x1b[2J", "x" * 900):
            text = sentence(silo("restart", name, store=store.path, status=2))
            assert "there is no actor" in text
            assert "the actors are allocate, append" in text
            assert "\x1b" not in text
            assert len(text) < 300
        with Admin(store.path) as admin, pytest.raises(IllegalMessage, match="no actor"):
            admin.restart("broker")
        assert store.pids() == pids
    sentence(silo("restart", "append", store=store.path, status=1))
    sentence(silo("reload", store=store.path, status=1))


class BadAppend(StoreProcess):
    """A store whose second append does not start."""

    @property
    def command(self) -> list[str]:
        code = (
            "import sys; from silomq.actors.append import Append\n"
            "class Defect(Append):\n"
            "    def setup(self):\n"
            "        *_, starts, _, _ = self.control.process(1)\n"
            "        assert starts != 2, 'planted'\n"
            "        super().setup()\n"
            "from silomq.supervisor.processes import CLASSES\n"
            "CLASSES['append'] = Defect\n"
            "from silomq.supervisor.__main__ import main\n"
            "sys.exit(main(sys.argv[1:]))"
        )
        return [*PYTHON, "-c", code, *super().command[len(PYTHON) + 2 :]]


def test_a_process_that_does_not_start_is_told(tmp_path: Path) -> None:
    store = BadAppend(tmp_path / "store")
    with store, Admin(store.path) as admin:
        with pytest.raises(StoreError, match="the new append ended before it served"):
            admin.restart("append")
        store.await_successor("append", 0)
        assert store.starts("append") == 3
        assert admin.restart("append") > 0
        store.log_path.write_text("")  # the traceback of the defect is expected


def test_a_stop_during_a_restart_is_a_clean_stop(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store, Admin(store.path) as admin:
        kill_now(store.running.pid, signal.SIGTERM)
        with pytest.raises(StoreError):
            _restart_for_ever(admin)
        # A second signal must not meet a process that has just put its handlers away.
        assert store.running.wait(WAIT_S) == 0, store.log()


def _restart_for_ever(admin: Admin) -> None:
    while True:
        admin.restart("flush")


def test_a_reload_says_what_came_of_it(tmp_path: Path) -> None:
    store = ConfiguredStore(tmp_path / "store")
    store.file.write_text("")
    with store:
        assert silo("reload", store=store.path).stdout == b"nothing has changed\n"
        store.file.write_text("append_spin_us = 0\nproducer_spin_us = 1\n")
        assert silo("reload", store=store.path).stdout == (
            b"changed: append_spin_us; need a restart: producer_spin_us\n"
        )
        pids = store.pids()
        store.file.write_text("append_spin_us = many\n")
        text = sentence(silo("reload", store=store.path, status=1))
        assert "cannot read the settings again, nothing changes" in text
        assert str(store.file) in text
        assert store.pids() == pids
