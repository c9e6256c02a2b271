"""A store whose supervisor is killed goes on, because the service manager keeps its descriptors
(`supervisor/keeping.py`, `supervisor/resuming.py`).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.files import check_files
from support.checking.messages import check_store
from support.harness import LONG, PYTHON, WAIT_S, StoreProcess, eventually
from support.kept_store import KeptStore
from support.load.consumers import Consumers
from support.load.producers import Producers
from support.service_manager import ServiceManager, SocketUnit

from silomq import Admin, Consumer, Producer, StoreClosed
from silomq.shm import segments
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from collections.abc import Iterator


GOES_ON = "going on with the store of a killed supervisor"
ANEW = "the store starts anew"
RUNNING = '"event": "store running"'
#: Sends one-way messages, says so, and waits to be killed.
SENDS_ONE_WAY = """
import sys, time
from silomq import Producer
producer = Producer(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    producer.send_oneway("t", b"%d" % number)
print("sent", flush=True)
time.sleep(600)
"""


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    with ServiceManager(tmp_path) as found:
        yield found


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("times", "settings"),
    [
        (2, {}),
        (1, {"flush_disk_type": "SYNC_FLUSH"}),
        (1, {"transient_store_pool_enable": "true"}),
        pytest.param(20, {}, marks=LONG),
        pytest.param(20, {"flush_disk_type": "SYNC_FLUSH"}, marks=LONG),
        pytest.param(20, {"transient_store_pool_enable": "true"}, marks=LONG),
    ],
)
def test_killed_under_load(
    tmp_path: Path, manager: ServiceManager, times: int, settings: dict[str, Any]
) -> None:
    """No client sees an error, and nothing is lost or doubled."""
    store = KeptStore(tmp_path / "store", manager, **settings)
    store.planted = "from silomq.supervisor import keeping; keeping.CALM_S = 0.1"
    with store:
        with Admin(store.path) as admin:
            admin.create_topic("t")
        with (
            Producers(store, ["t"], rate=400.0) as producers,
            Consumers(store.path, "t", ("one", "two")) as consumers,
        ):
            for _ in range(times):
                producers.await_flow(200)
                store.await_kept(5)
                began = time.monotonic()
                store.die()
                store.start()
                eventually(store.all_ready, "all serve")
                print(f"nobody served for {time.monotonic() - began:.2f} s")
                store.await_calm()
            sent = producers.finish()
            assert not sent.errors, sent.errors[0]
            check_store(store, sent, ["t"])
            consumers.finish(len(sent.acks) + len(sent.oneway))
        log = store.log_path.read_text()
        assert log.count(GOES_ON) == times
        assert ANEW not in log
        store.stop()
        check_files(store)
        eventually(lambda: not manager.kept, "nothing is kept of a store that has stopped")


def test_what_an_ended_producer_has_sent_one_way_is_appended(
    tmp_path: Path, manager: ServiceManager
) -> None:
    """Neither the producer nor a process of the store is left. The ring alone has the messages."""
    count = 300
    with KeptStore(tmp_path / "store", manager) as store:
        with Admin(store.path) as admin:
            admin.create_topic("t")
        store.await_kept(0)
        command = [*PYTHON, "-c", SENDS_ONE_WAY, str(store.path), str(count)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, text=True, bufsize=1, **pipes) as producer:
            assert producer.stdin is not None
            assert producer.stdout is not None
            assert producer.stdout.readline() == "ready\n"
            store.await_kept(1)
            records = store.control.load("records")
            store.kill("append", signal.SIGSTOP)
            producer.stdin.write("\n")
            assert producer.stdout.readline() == "sent\n"
            producer.kill()
        assert store.control.load("records") == records
        store.die()
        store.start()
        with Consumer(store.path, "t") as consumer:
            bodies: list[bytes] = []
            deadline = time.monotonic() + WAIT_S
            while len(bodies) < count and time.monotonic() < deadline:
                bodies += [bytes(message.body) for message in consumer.poll(1000, 1.0)]
            assert sorted(bodies, key=int) == [b"%d" % number for number in range(count)]
            assert not consumer.poll(1, 0.3)
        eventually(lambda: store.kept_sessions() == 0, "its session ends")


def test_a_waiting_consumer_does_not_notice(tmp_path: Path, manager: ServiceManager) -> None:
    with KeptStore(tmp_path / "store", manager) as store:
        with Producer(store.path) as producer:
            producer.send("t", b"before")

        def restart_and_send() -> None:
            store.await_kept(1)
            store.die()
            store.start()
            with Producer(store.path) as producer:
                producer.send("t", b"after")

        with Consumer(store.path, "t") as consumer:
            assert [message.body for message in consumer.poll(1, WAIT_S)] == [b"before"]
            other = threading.Thread(target=restart_and_send)
            other.start()
            assert [message.body for message in consumer.poll(1, WAIT_S)] == [b"after"]
            other.join()
        assert GOES_ON in store.log_path.read_text()


def test_the_settings_are_read_again(tmp_path: Path, manager: ServiceManager) -> None:
    with KeptStore(tmp_path / "store", manager, log_level="info") as store:
        eventually(lambda: "silomq-kept-listener" in manager.kept, "the store is kept")
        time.sleep(0.2)
        store.die()
        store.settings["log_level"] = "debug"
        store.start()
        eventually(lambda: '"changed": ["log_level"]' in store.log(), "the new level")


def test_a_stop_leaves_nothing_to_go_on_with(tmp_path: Path, manager: ServiceManager) -> None:
    with KeptStore(tmp_path / "store", manager) as store, Producer(store.path) as producer:
        producer.send("t", b"x")
        store.await_kept(1)
        store.stop()
        with pytest.raises(StoreClosed):
            producer.send("t", b"y")
        store.start()
        assert GOES_ON not in store.log_path.read_text()


def start_unseen(store: StoreProcess) -> StoreProcess:
    """Starts it by hand, and does not connect before it runs. The manager keeps the old socket,
    which such a start has not: who connects to that one waits for the manager's next start.
    """
    before = store.log_path.read_text().count(RUNNING)
    store.launch()
    eventually(lambda: store.log_path.read_text().count(RUNNING) > before, "the store runs")
    return store


def waiting_at(store: StoreProcess) -> socket.socket:
    """A client that connects to the socket of a dead store, which the manager keeps."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.settimeout(WAIT_S)
    folder = os.open(store.path, os.O_PATH)
    end.connect(f"/proc/self/fd/{folder}/{SOCKET}")
    os.close(folder)
    return end


def _closed(producer: Producer) -> bool:
    try:
        producer.send("t", b"y")
    except StoreClosed:
        return True
    return False


@pytest.mark.parametrize("lost", ["memory", "mail", "code", "run", "file"])
def test_what_cannot_be_gone_on_with_starts_anew(
    tmp_path: Path, manager: ServiceManager, lost: str
) -> None:
    """Its clients see their connections end, although the manager still has them."""
    with KeptStore(tmp_path / "store", manager) as store:
        with Producer(store.path) as producer:
            producer.send("t", b"x")
            store.await_kept(1)
            store.die()
            waiting = waiting_at(store)
            if lost == "memory":
                segments.remove_all(store.store_id)
            elif lost == "mail":
                for fd in manager.kept.pop("silomq-kept-mail-3"):
                    os.close(fd)
            elif lost == "run":  # somebody starts the store by hand, and it is killed
                other = start_unseen(StoreProcess(store.path))
                other.crash()
            elif lost == "file":
                (store.path / "abort").write_text("1")
            else:
                store.planted = "from silomq.supervisor import layouts; layouts.HANDOVER += 1"
            store.start()
            assert ANEW in store.log()
            assert _closed(producer)
            with waiting:  # it is told to try again
                assert waiting.recv(1) == b""
        with Producer(store.path) as producer, Consumer(store.path, "t") as consumer:
            producer.send("t", b"y")
            bodies = [bytes(message.body) for _ in range(2) for message in consumer.poll(1, WAIT_S)]
            assert sorted(bodies) == [b"x", b"y"]
        eventually(lambda: "silomq-kept-mail-3" in manager.kept, "the new store is kept")
        store.await_kept(0)


def test_a_session_of_which_something_is_lost_ends_alone(
    tmp_path: Path, manager: ServiceManager
) -> None:
    with KeptStore(tmp_path / "store", manager) as store, Producer(store.path) as kept:
        kept.send("t", b"x")
        store.await_kept(1)
        before = set(manager.kept)
        with Producer(store.path) as lost:
            lost.send("t", b"x")
            store.await_kept(2)
            store.die()
            (name,) = set(manager.kept) - before
            os.close(manager.kept[name].pop(0))
            store.start()
            assert GOES_ON in store.log()
            assert _closed(lost)
            assert kept.send("t", b"y").status.name == "PUT_OK"
        store.await_kept(1)


def test_a_store_that_dies_again_and_again_starts_anew(
    tmp_path: Path, manager: ServiceManager
) -> None:
    with KeptStore(tmp_path / "store", manager) as store, Producer(store.path) as producer:
        for number in range(3):
            producer.send("t", b"x")
            store.await_kept(1)
            store.die()
            store.start()
            eventually(store.all_ready, "all serve")
            assert store.log_path.read_text().count(GOES_ON) == number + 1
        store.await_kept(1)
        time.sleep(0.2)
        store.die()
        store.start()
        assert "the supervisor has died 3 times in a row" in store.log_path.read_text()
        assert _closed(producer)


def test_more_sessions_than_the_manager_keeps(tmp_path: Path, manager: ServiceManager) -> None:
    """Those that it has are kept, and the log says it of the others."""
    own = 2 + 8 + 1 + 2 * 2  # the document, mail, the socket, rings of schedule and transactions
    with (
        KeptStore(tmp_path / "store", manager, most=own + 3) as store,
        Producer(store.path) as kept,
    ):
        kept.send("t", b"x")
        store.await_kept(1)
        with Producer(store.path) as other:
            other.send("t", b"x")
            said = "the service manager keeps no more descriptors"
            eventually(lambda: said in store.log(), "it says so")
            store.die()
            store.start()
            assert GOES_ON in store.log()
            assert _closed(other)
        assert kept.send("t", b"y").status.name == "PUT_OK"


def test_with_a_socket_unit(tmp_path: Path, manager: ServiceManager) -> None:
    with SocketUnit(tmp_path / "store") as unit:
        store = KeptStore(unit.path.parent, manager, unit=unit)
        with store, Producer(store.path) as producer:
            producer.send("t", b"x")
            store.await_kept(1)
            assert "silomq-kept-listener" not in manager.kept
            store.die()
            store.start()
            assert GOES_ON in store.log()
            assert producer.send("t", b"y").status.name == "PUT_OK"


def test_new_code_keeps_what_is_kept(tmp_path: Path, manager: ServiceManager) -> None:
    with KeptStore(tmp_path / "store", manager) as store, Producer(store.path) as producer:
        producer.send("t", b"x")
        store.await_kept(1)
        with Admin(store.path) as admin:
            store.await_kept(2)
            for _ in admin.reload_code(trial_s=0.0):
                continue
        store.await_kept(1)
        before = {name: list(fds) for name, fds in manager.kept.items()}
        producer.send("t", b"x")
        assert manager.kept == before
        store.die()
        store.start()
        assert GOES_ON in store.log()
        assert producer.send("t", b"y").status.name == "PUT_OK"


def test_a_store_with_a_broker(tmp_path: Path, manager: ServiceManager) -> None:
    """The parent of both passes on what the store gives to be kept, and what it gets again."""
    store = KeptStore(tmp_path / "store", manager)
    store.with_broker = True
    with store, Producer(store.path) as producer:
        producer.send("t", b"x")
        eventually(lambda: store.kept_sessions() >= 1, "the session is kept")
        time.sleep(0.3)
        store.die()
        store.start()
        assert GOES_ON in store.log_path.read_text()
        assert producer.send("t", b"y").status.name == "PUT_OK"


def test_a_manager_that_reads_late_keeps_all(tmp_path: Path, manager: ServiceManager) -> None:
    """What it has not taken is given again, and no session waits for that."""
    with KeptStore(tmp_path / "store", manager) as store:
        store.await_kept(0)
        store.pauses.set()
        producers = [Producer(store.path) for _ in range(12)]  # more messages than a socket holds
        for producer in producers:
            assert producer.send("t", b"x").status.name == "PUT_OK"
        producers.pop().close()
        store.pauses.clear()
        store.await_kept(11)
        store.die()
        store.start()
        assert GOES_ON in store.log()
        for producer in producers:
            assert producer.send("t", b"y").status.name == "PUT_OK"
            producer.close()


@pytest.mark.parametrize("text", ["", "0", "many", "\u00b2", "9" * 5000, "-1"])
def test_a_variable_that_makes_no_sense_keeps_nothing(
    tmp_path: Path, manager: ServiceManager, text: str
) -> None:
    store = KeptStore(tmp_path / "store", manager)
    store.environ["FDSTORE"] = text
    store.environ["WATCHDOG_USEC"] = text
    with store, Producer(store.path) as producer:
        assert producer.send("t", b"x").status.name == "PUT_OK"
        assert not manager.kept
