"""What a session may touch, what becomes of it when the store stops, and SYNC_FLUSH's promises."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

import pytest
from support.checking.messages import read_topic
from support.harness import PYTHON, StoreProcess, eventually, memory_of, tries_within

from silomq import (
    Admin,
    Consumer,
    IllegalMessage,
    Producer,
    PutMessageStatus,
    SendTimeout,
    StoreClosed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = 65534
_libc = ctypes.CDLL(None, use_errno=True)
#: A client that shows its mappings, and then tries to write to the store's memory.
INTRUDER = """
import ctypes, mmap, os, sys
from silomq import Consumer, Producer
from silomq.shm import mail
kept = []
close_all = mail.close_all
mail.close_all = lambda fds: kept.extend(fds)  # the descriptors that a client is handed
producer = Producer(sys.argv[1], ring_size=65536)
producer.send("t", b"x")
consumer = Consumer(sys.argv[1], "t")
while not consumer.poll(1, 1.0):
    pass
for line in open("/proc/self/maps"):
    words = line.split()
    if "s" in words[1] and "w" in words[1]:
        print("writable", words[5])
for fd in kept:
    name = os.readlink(f"/proc/self/fd/{fd}")
    try:
        mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        print("mapped", name)
    except OSError as error:
        print("refused", name, error.errno)
libc = ctypes.CDLL(None, use_errno=True)
for line in open("/proc/self/maps"):
    words = line.split()
    if "s" in words[1] and "w" not in words[1] and sys.argv[2] in words[-1]:
        start, end = (int(x, 16) for x in words[0].split("-"))
        done = libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), 3)
        print("mprotect", words[5], done, ctypes.get_errno())
"""


def test_a_client_can_write_to_nothing_but_its_ring(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        name = f"silomq-{store.store_id:016x}"
        done = subprocess.run(
            [*PYTHON, "-W", "ignore", "-c", INTRUDER, store.path, name],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        lines = [line.split() for line in done.stdout.splitlines()]
        writable = [words[1] for words in lines if words[0] == "writable"]
        assert len(writable) == 1, writable
        assert writable[0].startswith("/memfd:silomq-ring-")
        refused = {words[1]: words[2] for words in lines if words[0] == "refused"}
        for kind in ("control", "table"):
            assert refused[f"/dev/shm/{name}-{kind}"] == str(errno.EACCES)
        assert not [words for words in lines if words[0] == "mapped"]
        tried = {tuple(words[1:]) for words in lines if words[0] == "mprotect"}
        assert tried == {
            (f"/dev/shm/{name}-{kind}", "-1", str(errno.EACCES)) for kind in ("control", "table")
        }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_gets_nothing(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        names = memory_of(store.path)
        for folder in (tmp_path.parent.parent, tmp_path.parent, tmp_path, store.path):
            folder.chmod(0o755)
        attempts = [f"/dev/shm/{name}" for name in names]
        pid = os.fork()
        if pid == 0:
            opened = 0
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            for path in attempts:
                for flags in (os.O_RDONLY, os.O_RDWR):
                    try:
                        os.open(path, flags)
                        opened += 1
                    except PermissionError:
                        pass
            try:
                Producer(store.path)
                opened += 100
            except (StoreClosed, IllegalMessage):
                pass
            os._exit(opened)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_topic_must_exist_without_auto_create(tmp_path: Path) -> None:
    with (
        StoreProcess(tmp_path / "store", auto_create_topic_enable="false") as store,
        Producer(store.path) as producer,
        Admin(store.path) as admin,
    ):
        with pytest.raises(IllegalMessage, match="auto_create_topic_enable is off") as error:
            producer.send("new", b"x")
        assert error.value.status == PutMessageStatus.MESSAGE_ILLEGAL
        admin.create_topic("new", 2)
        assert producer.send("new", b"x").status == PutMessageStatus.PUT_OK
        with pytest.raises(IllegalMessage, match="exists with 2 queues"):
            admin.create_topic("new", 3)
        assert [(t.topic, t.write_queues) for t in admin.topics()] == [("new", 2)]


# -- the store goes away


def test_restart_is_an_error_unless_wished(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        producer = Producer(store.path)
        producer.send("t", b"x")
        store.kill("append", signal.SIGSTOP)
        future = producer.send_async("t", b"pending")
        store.crash()
        with pytest.raises(StoreClosed, match="unanswered"):
            future.result(10)
        with pytest.raises(StoreClosed):
            producer.send("t", b"y")
        store.start()
        with pytest.raises(StoreClosed):
            producer.send("t", b"z")
        producer.close()
        with pytest.raises(StoreClosed):
            Producer(tmp_path / "nowhere")


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_retry_goes_on_after_a_restart(tmp_path: Path, how: str) -> None:
    with StoreProcess(tmp_path / "store") as store:
        bodies: list[bytes] = []
        errors: list[BaseException] = []
        stopping = threading.Event()

        def work() -> None:
            try:
                with Producer(store.path, on_restart="retry", timeout=20) as producer:
                    while not stopping.is_set():
                        futures = []
                        for _ in range(8):
                            bodies.append(b"%d" % len(bodies))
                            futures.append(producer.send_async("t", bodies[-1], queue=0))
                        for future in futures:
                            future.result(20)
            except BaseException as error:  # noqa: BLE001 # raised again in the test's thread
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(2):
            time.sleep(0.3)
            getattr(store, how)()
            time.sleep(0.1)
            store.start()
        time.sleep(0.3)
        stopping.set()
        thread.join(30)
        assert not errors, errors
        store.await_dispatch()
        views = read_topic(store.path, "t")
        first_seen = list(dict.fromkeys(view.body for view in views))
        assert first_seen == bodies, "everything is there, in order"
        # What is there twice was unanswered when the store went, and can be told by its key.
        twice = len(views) - len(bodies)
        assert twice <= 2 * 8
        assert len({view.message_id for view in views}) == len(bodies)


def test_retry_gives_up_after_a_while(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path, on_restart="retry", reconnect_timeout=0.5) as producer:
            producer.send("t", b"x")
            store.stop()
            with pytest.raises(StoreClosed):
                producer.send("t", b"y", timeout=10)
        store.start()


# -- SYNC_FLUSH


@pytest.fixture(scope="module")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(
        tmp_path_factory.mktemp("sync") / "store",
        flush_disk_type="SYNC_FLUSH",
        sync_flush_timeout_ms=400,
        heartbeat_timeout_ms=60_000,
    ) as store:
        yield store


def test_put_ok_means_durable(synced: StoreProcess) -> None:
    with Producer(synced.path) as producer:
        for i in range(200):
            result = producer.send("t", b"x" * i)
            assert result.status == PutMessageStatus.PUT_OK
            end = result.physical_offset + 91 + len("t") + i
            assert synced.control.load("flushed") >= end
        futures = [producer.send_async("t", b"x") for _ in range(500)]
        before = synced.control.load("flushes")
        ends = [future.result(10).physical_offset for future in futures]
        assert synced.control.load("flushed") > max(ends)
        assert synced.control.load("flushes") - before < 250, "one sync serves many"


def test_a_frozen_flush_is_a_status(synced: StoreProcess) -> None:
    with Producer(synced.path, timeout=10) as producer:
        producer.send("frozen", b"before", queue=0)
        pid = synced.kill("flush", signal.SIGSTOP)
        try:
            offsets: list[int] = []

            def send_in_vain() -> None:
                began = time.monotonic()
                result = producer.send("frozen", b"during", queue=0)
                assert time.monotonic() - began > 0.35
                assert result.status == PutMessageStatus.FLUSH_DISK_TIMEOUT
                offsets.append(result.queue_offset)

            def send_without_waiting() -> None:
                result = producer.send("frozen", b"no wait", queue=0, wait_store=False)
                assert result.status == PutMessageStatus.PUT_OK
                offsets.append(result.queue_offset)

            tries_within(1.5, send_in_vain)
            tries_within(0.2, send_without_waiting)
            assert offsets == list(range(1, 1 + len(offsets)))
            with pytest.raises(SendTimeout, match="appended, not yet durable"):
                producer.send("frozen", b"too short", queue=0, timeout=0.1)
            with Consumer(synced.path, "frozen", queues=[0]) as consumer:
                bodies = [view.body for view in consumer.poll(10, 0.3)]
            assert bodies == [b"before"], "what is not durable is not shown"
        finally:
            os.kill(pid, signal.SIGCONT)
        assert producer.send("frozen", b"after", queue=0).status == PutMessageStatus.PUT_OK
    count = 3 + len(offsets)
    eventually(lambda: len(read_topic(synced.path, "frozen")) == count, "all is shown", 5)
