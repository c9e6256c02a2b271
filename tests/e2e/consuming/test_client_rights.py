"""What a client may touch of a store: its ring, the page on which it counts its reads, and nothing
else; and who may be a client.
"""

from __future__ import annotations

import errno
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.harness import PYTHON, StoreProcess, memory_of

from silomq import (
    Admin,
    IllegalMessage,
    Producer,
    PutMessageStatus,
    StoreClosed,
)

if TYPE_CHECKING:
    from pathlib import Path


NOBODY = 65534
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


def test_a_client_can_write_to_nothing_but_its_ring_and_its_reads(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        name = f"silomq-{store.store_id:016x}"
        done = subprocess.run(
            [*PYTHON, "-W", "ignore", "-c", INTRUDER, store.path, name],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        lines = [line.split() for line in done.stdout.splitlines()]
        writable = [words[1] for words in lines if words[0] == "writable"]
        kinds = sorted(name.rpartition("-")[0] for name in writable)
        assert kinds == ["/memfd:silomq-reads", "/memfd:silomq-ring"], writable
        refused = {words[1]: words[2] for words in lines if words[0] == "refused"}
        for kind in ("control", "table"):
            assert refused[f"/dev/shm/{name}-{kind}"] == str(errno.EACCES)
        mapped = {words[1].rpartition("-")[0] for words in lines if words[0] == "mapped"}
        assert mapped <= set(kinds)
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
