"""Sessions that come and go while actors are busy, frozen, or replaced: nobody else notices, and
nothing of them stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from support.checking.messages import read_topic
from support.harness import PYTHON, StoreProcess, eventually, kill_now, tries_within

from silomq import Admin, Consumer, Producer
from silomq.shm.control import ACTORS

SATURATE = """
import sys
from silomq import Producer
producer = Producer(sys.argv[1], ring_size=64 << 20, timeout=30)
batch = [b"x" * 20] * 1000
while True:
    producer.send_batch_oneway("busy", batch)
"""


#: Publishes more than a batch of append, and is gone.
PUBLISH = """
import os, sys
from silomq import Producer
producer = Producer(sys.argv[1])
for number in range(int(sys.argv[2])):
    producer.send_oneway("t", b"%04d" % number + b"x" * 1000, queue=0)
os._exit(0)
"""


def _session_files(pid: int) -> list[str]:
    """Rings, bells and client connections that a process holds, by what /proc calls them."""
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(fd))
        except FileNotFoundError:
            continue
    return [name for name in found if "silomq-ring" in name or "eventfd" in name]


def _family(store: StoreProcess) -> dict[str, int]:
    return {"supervisor": store.running.pid, **store.pids()}


def _sockets(pid: int) -> int:
    count = 0
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            count += os.readlink(fd).startswith("socket:")
    return count


def test_nothing_of_a_closed_session_stays(tmp_path: Path) -> None:
    """Also not in an actor that was forked while the session was open."""
    with StoreProcess(tmp_path / "store") as store:
        idle = {actor: _sockets(pid) for actor, pid in store.pids().items()}
        # The store's own session, through which delayed messages are delivered, stays.
        own = {a: len(_session_files(p)) for a, p in _family(store).items()}
        producers = [Producer(store.path, ring_size=65536) for _ in range(3)]
        for producer in producers:
            producer.send("t", b"x")
        consumer = Consumer(store.path, "t")
        for actor in ACTORS:
            store.replace(actor)
        for producer in producers:
            producer.send("t", b"y")
            producer.close()
        consumer.close()
        eventually(lambda: store.control.load("sessions") == 0, "the sessions are gone", 5)
        eventually(
            lambda: {a: len(_session_files(p)) for a, p in _family(store).items()} == own,
            f"only {own} are left",
            2,
        )
        eventually(
            lambda: all(_sockets(pid) <= idle[actor] for actor, pid in store.pids().items()),
            f"no connection is kept: {idle} before",
            2,
        )


def test_sessions_end_while_append_is_busy(tmp_path: Path) -> None:
    with StoreProcess(
        tmp_path / "store", mapped_file_size_commit_log=64 << 20, max_sessions=24
    ) as store:
        command = [*PYTHON, "-c", SATURATE, str(store.path)]
        busy = [subprocess.Popen(command) for _ in range(2)]
        try:
            eventually(lambda: store.control.load("sessions") == 2, "the others are busy")
            # More than twice as many as there may be at once.
            for _ in range(60):
                with Producer(store.path, ring_size=65536, timeout=10) as producer:
                    producer.send("t", b"x")
                time.sleep(0.005)
            eventually(lambda: store.control.load("sessions") <= 3, "sessions are let go", 3)
        finally:
            for process in busy:
                process.kill()
                process.wait()


def test_many_sessions_while_append_is_frozen(tmp_path: Path) -> None:
    """More news for append than its inbox takes: it gets them when it is back."""
    with StoreProcess(tmp_path / "store", heartbeat_timeout_ms=60_000, max_sessions=1000) as store:
        with Producer(store.path) as producer:
            producer.send("t", b"before", queue=0)
        pid = store.kill("append", signal.SIGSTOP)
        try:
            for _ in range(200):
                Producer(store.path, ring_size=65536).close()
            with Producer(store.path, ring_size=65536) as last:
                future = last.send_async("t", b"during", queue=0)
                os.kill(pid, signal.SIGCONT)
                assert future.result(10).queue_offset == 1
        finally:
            os.kill(pid, signal.SIGCONT)
        eventually(lambda: store.control.load("sessions") == 0, "all sessions are let go", 5)
        assert store.starts("append") == 1
        assert store.running.poll() is None


def test_a_quiet_client_outlives_many_registries(tmp_path: Path) -> None:
    """It is told of each, and reads nothing of it until it asks for something."""
    with (
        StoreProcess(tmp_path / "store", restart_backoff_max_ms=0) as store,
        Producer(store.path) as producer,
    ):
        producer.send("t", b"x")
        for _ in range(300):
            store.replace("registry")
        assert producer.send("t", b"y", timeout=5).status.name == "PUT_OK"
        topics = iter("uvw")  # each new one is asked for

        def ask() -> None:
            assert producer.send(next(topics), b"x", timeout=5).queue_offset == 0

        tries_within(2, ask)


def test_a_clients_last_messages_are_appended(tmp_path: Path) -> None:
    """The news of its end comes between two batches, while much of it is still in the ring."""
    count = 200
    with StoreProcess(tmp_path / "store", append_batch_bytes=4096) as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 1)
        mail = store.control.load("append_mail")
        program = [*PYTHON, "-c", PUBLISH, str(store.path), str(count)]
        with Producer(store.path) as producer:
            producer.send("t", b"first", queue=0)
            append = store.kill("append", signal.SIGSTOP)
            subprocess.run(program, check=True)
            eventually(lambda: store.control.load("append_mail") >= mail + 3, "its end is known")
            kill_now(append, signal.SIGCONT)
            eventually(lambda: store.control.load("sessions") == 1, "its session is over")
        store.await_dispatch()
        found = [int(view.body[:4]) for view in read_topic(store.path, "t")[1:]]
        assert found == list(range(count))


def test_a_new_registry_keeps_no_connection_of_a_session_that_ends(tmp_path: Path) -> None:
    """Append has not detached the session yet when the registry is replaced."""
    with StoreProcess(tmp_path / "store", heartbeat_timeout_ms=60_000) as store:
        before = len(os.listdir(f"/proc/{store.pid('registry')}/fd"))
        append = store.kill("append", signal.SIGSTOP)
        for _ in range(5):
            Producer(store.path, ring_size=65536).close()
        eventually(lambda: store.control.load("sessions") == 5, "they wait for append")
        store.await_beat("registry")  # it has told the supervisor that the clients are gone
        store.replace("registry")
        kill_now(append, signal.SIGCONT)
        eventually(lambda: store.control.load("sessions") == 0, "all sessions are let go")
        eventually(
            lambda: len(os.listdir(f"/proc/{store.pid('registry')}/fd")) <= before,
            "its descriptors are closed",
            5,
        )
