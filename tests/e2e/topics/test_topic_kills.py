"""Kills of the registry while topics are made, grow, and are deleted."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest
from e2e.topics.queues import assert_sound, numbers, read, send
from support.harness import StoreProcess, eventually, lives
from support.kill_points import ROOT, Fault, points_in

from silomq import Admin, Producer, StoreError

if TYPE_CHECKING:
    from pathlib import Path

STEPS = ("deleting", "decided", "unlisted", "removed", "finished")
#: From the first of them on no death undoes the deletion.
DECIDED = STEPS[STEPS.index("decided") :]


def test_every_point_of_the_registry_is_tried() -> None:
    tried = {f"registry:{step}" for step in (*STEPS, *MAKING, "grown", "revoked")}
    room, table = ROOT / "actors" / "registry", ROOT / "store" / "topics"
    assert points_in([*room.glob("*.py"), *table.glob("*.py")]) == tried


#: Queues count, but no look-up finds them yet: of a new topic, and of a topic that grows.
MAKING = ("counted", "growing")


@pytest.mark.parametrize("step", MAKING)
def test_a_registry_that_takes_over_files_queues(
    tmp_path: Path, fault_build: Path, step: str
) -> None:
    """Dispatch finds a queue by its bucket. It would stop the store at the first message of a queue
    that the table counts, but cannot find.
    """
    fault = Fault(fault_build, tmp_path, f"registry:{step}").arm()
    with StoreProcess(tmp_path / "store", environ=fault.environ) as store:
        first = store.pid("registry")
        with Admin(store.path) as admin:
            admin.create_topic("t", 2)  # the successor answers
            admin.update_topic("t", read_queues=4, write_queues=4)
            admin.create_topic("next", 1)
        fault.assert_happened()
        assert store.pid("registry") != first
        assert "filed queues that a killed registry had not" in store.log()
        with Producer(store.path) as producer:
            for queue_id in range(4):
                producer.send("t", str(queue_id), queue=queue_id)
            producer.send("next", "1")
        store.await_dispatch()
        assert store.starts("reput") == 1
        assert read(store, "t", 4) == {i: [(0, str(i))] for i in range(4)}
        assert read(store, "next", 1) == {0: [(0, "1")]}
        assert numbers(store, "t") == (4, 4, 4)


@pytest.mark.parametrize("step", [*STEPS, "grown", "revoked"])
@pytest.mark.parametrize("everything", [False, True], ids=["registry", "store"])
def test_a_registry_is_killed_between_two_steps(
    tmp_path: Path, fault_build: Path, step: str, *, everything: bool
) -> None:
    fault = Fault(fault_build, tmp_path, f"registry:{step}").arm()
    store = StoreProcess(
        tmp_path / "store", environ=fault.environ, auto_create_topic_enable="false"
    )
    with store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 2)
            admin.create_topic("stays", 1)
        send(store, "t", ["old"])
        send(store, "stays", ["kept"])
        read(store, "t", 1)
        pid = store.pid("registry")
        if everything:
            store.running.send_signal(signal.SIGSTOP)  # nobody replaces the registry
        ask(store, step, wait=not everything)
        if everything:
            eventually(lambda: not lives(pid), "the registry died")
            store.crash()
            store.start()
            if step not in DECIDED:  # what was not durable was not promised
                ask(store, step, wait=True)
        else:
            assert store.pid("registry") != pid
        fault.assert_happened()
        if step in STEPS:
            with Admin(store.path) as admin:
                assert [topic.topic for topic in admin.topics()] == ["stays"]
            assert [path.name for path in (store.path / "consumequeue").iterdir()] == ["stays"]
            with Admin(store.path) as admin:
                admin.create_topic("t", 1)
            send(store, "t", ["new"])
            assert read(store, "t", 1) == {0: [(0, "new")]}
        else:
            assert numbers(store, "t") == (4, 4, 4)
            assert read(store, "t", 1) == {0: [(0, "old")]}
        read(store, "stays", 1)
        store.crash()
        assert_sound(store)


def ask(store: StoreProcess, step: str, *, wait: bool) -> None:
    """Asks for what passes the step; `wait` for the answer, which a successor gives."""

    def work() -> None:
        try:
            with Admin(store.path) as admin:
                if step in STEPS:
                    admin.delete_topic("t")
                else:
                    admin.update_topic("t", read_queues=4, write_queues=4, perm=4)
        except StoreError:
            assert not wait

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    if wait:
        thread.join(30)
        assert not thread.is_alive()
