"""The supervisor's watch: order, freezes, failures at boot, refusals."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.harness import PYTHON, WAIT_S, StoreProcess, eventually, lives
from support.small_settings import SMALL

from silomq import Consumer, Producer, StoreClosed
from silomq.shm import segments
from silomq.shm.control import ACTORS

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534
_PR_CAPBSET_DROP = 24
_libc = ctypes.CDLL(None, use_errno=True)


def _events(store: StoreProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.log().splitlines() if line.startswith("{")]


def refused(path: Path, *, weak: bool = False, **settings: object) -> str:
    """Runs `silo serve`, which must not start: the one line that it says. `weak`: by a root that
    may not write where others may not.
    """
    pairs = [w for k, v in {**SMALL, **settings}.items() for w in ("--set", f"{k}={v}")]
    done = subprocess.run(
        [*PYTHON, "-m", "silomq.cli.main", "serve", "--store", path, *pairs],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
        preexec_fn=_drop_override if weak else None,
    )  # fmt: skip
    assert done.returncode not in (0, -signal.SIGKILL), done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("silo: ")]
    assert "Traceback" not in done.stderr, done.stderr
    assert len(said) == 1, done.stderr
    return said[0]


def _drop_override() -> None:
    """What is executed next has neither CAP_DAC_OVERRIDE nor CAP_DAC_READ_SEARCH."""
    for capability in (1, 2):
        assert _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0


def test_starts_in_order_and_names_its_processes(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        pids = store.pids()
        born = {actor: psutil.Process(pid).create_time() for actor, pid in pids.items()}
        assert sorted(ACTORS, key=lambda actor: (born[actor], pids[actor])) == list(ACTORS)
        for actor, pid in pids.items():
            assert psutil.Process(pid).ppid() == store.running.pid
            assert psutil.Process(pid).cmdline()[0].strip() == f"silomq[store] {actor}"
        title = psutil.Process(store.running.pid).cmdline()[0].strip()
        assert title == "silomq[store] supervisor"
        assert {store.starts(actor) for actor in ACTORS} == {1}


def test_a_second_supervisor_is_refused(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        assert "is in use by another process" in refused(store.path)
        second = subprocess.run(store.command, capture_output=True, check=False, timeout=WAIT_S)
        assert second.returncode not in (0, -9)
        assert b"is in use by another process" in second.stderr
        # It left the first one's things alone.
        with Producer(store.path) as producer:
            producer.send("t", b"x")


@pytest.mark.parametrize(
    "frozen",
    [("append",), ("reput", "registry", "flush"), ("allocate", "commit", "clean")],
    ids="+".join,
)
def test_frozen_actors_are_replaced(tmp_path: Path, frozen: tuple[str, ...]) -> None:
    with StoreProcess(tmp_path / "store", heartbeat_timeout_ms=1500) as store:
        with Producer(store.path, timeout=10.0) as producer:
            producer.send("t", b"before")
            pids = {actor: store.kill(actor, signal.SIGSTOP) for actor in frozen}
            producer.send("t", b"during")
            for actor, pid in pids.items():
                store.await_successor(actor, pid, 6)
            producer.send("new-topic", b"after")
        assert not [pid for pid in pids.values() if lives(pid)]
        with Consumer(store.path, "t") as consumer:
            eventually(lambda: consumer.lag() == 2, "both are dispatched", 5)
            assert {m.body for m in consumer.poll()} == {b"before", b"during"}
        killed = [e for e in _events(store) if e["event"] == "actor does not beat, killing it"]
        assert {event["frozen"] for event in killed} == set(frozen)


class Defective(StoreProcess):
    """A store whose reput has a defect: its set-up fails while there is the file `defect`."""

    @property
    def command(self) -> list[str]:
        code = (
            "import os, sys; from silomq.actors.reput import Reput; "
            "from silomq.supervisor.__main__ import main\n"
            "class Defect(Reput):\n"
            "    def setup(self):\n"
            "        assert not os.path.exists(self.settings.store_path / 'defect')\n"
            "        super().setup()\n"
            "from silomq.supervisor.processes import CLASSES\n"
            "CLASSES['reput'] = Defect\n"
            "sys.exit(main(sys.argv[1:]))"
        )
        return [*PYTHON, "-c", code, *super().command[len(PYTHON) + 2 :]]


def test_an_actor_that_cannot_start_again_stops_the_store(tmp_path: Path) -> None:
    store = Defective(tmp_path / "store")
    with store:
        (store.path / "defect").touch()
        store.kill("reput")
        assert store.running.wait(WAIT_S) == 1
        last = [event for event in _events(store) if event["event"] == "giving up"]
        assert [event["why"] for event in last] == [
            "reput failed to start 5 times (last: exit status 1)"
        ]
        assert segments.leftovers(store.store_id) == []
    with pytest.raises(StoreClosed, match="no store runs there"):
        Producer(store.path)


def test_an_actor_that_cannot_start_at_all_stops_the_store(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store", mapped_file_size_commit_log=16 << 20)
    process = store.launch()
    # No file may be larger than 8 MiB: allocate cannot make the first of the commit log.
    psutil.Process(process.pid).rlimit(psutil.RLIMIT_FSIZE, (8 << 20, 8 << 20))
    try:
        assert process.wait(WAIT_S) == 1, store.log()
        assert "allocate failed to start 5 times" in store.log()
        assert "File too large" in store.log()
        assert segments.leftovers(store.store_id) == []
    finally:
        store.clean_up()


# -- stores that cannot be served


def test_a_newer_layout_is_refused(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        pass
    (store.path / "silomq" / "layout").write_text("99\n")
    said = refused(store.path)
    assert "a newer SiloMQ made the store" in said
    assert "has version 99" in said
    assert segments.leftovers(store.store_id) == []


def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    said = refused(folder, weak=os.geteuid() == 0)
    assert f"cannot use {folder} as a store" in said
    assert "Permission denied" in said or "not writable" in said
    assert segments.leftovers(segments.store_identity(folder)) == []


def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stale:
        stale.bind(str(folder / "silomq.sock"))
    with StoreProcess(folder) as store, Producer(store.path) as producer:
        producer.send("t", b"x")


def test_an_unknown_group_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path / "store", socket_group="no-such-group-here")
    assert "no-such-group-here" in said


def test_half_made_files_of_a_killed_allocate_go(tmp_path: Path) -> None:
    """Each death of allocate may leave a whole file's space."""
    with StoreProcess(tmp_path / "store") as store:
        half_made = store.path / "silomq" / "allocating-00000000000001048576"
        half_made.write_bytes(bytes(1 << 20))
        store.replace("allocate")
        assert not half_made.exists()
