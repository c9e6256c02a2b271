"""Clients of other users: how many sessions they may have, what they may alter, and what they may
not do to others. These tests run as root, which starts clients as other users.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import silo
from support.harness import WAIT_S, StoreProcess, eventually
from support.lingering import lingering
from support.other_users import GROUP, OTHER, USER, GroupStore, reachable_folder, run_as

from silomq import Admin, Producer
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root may be other users")
ADMINS = "sys"  # a group that every Linux has
SETTINGS: dict[str, Any] = {"max_sessions": 40, "socket_group": GROUP, "admin_group": ADMINS}

TAKE_ALL = """
kept = []
try:
    while True:
        kept.append(Producer(sys.argv[1], ring_size=65536))
except IllegalMessage as refused:
    print(len(kept), refused.status.name, refused.why, flush=True)
sys.stdin.read()
"""
ALTER = """
store = sys.argv[1]
with Producer(store) as producer:
    producer.send("ordinary", b"x")
with GroupConsumer(store, "own", "ordinary", start="earliest", auto_ack=False) as member:
    (message,) = member.poll(1, timeout=20)
    member.nack(message)
with Admin(store) as admin:
    tries = {
        "create": lambda: admin.create_topic("made", 1),
        "reset": lambda: admin.reset_offset("own", "ordinary", {0: 0}),
        "forget": lambda: admin.delete_group("own"),
        "update": lambda: admin.update_topic("ordinary", perm=4),
        "delete": lambda: admin.delete_topic("ordinary"),
        "clean": admin.clean,
    }
    for name, act in tries.items():
        try:
            act()
        except IllegalMessage as refused:
            print(name, refused.status.name, refused.why)
        else:
            print(name, "done")
    assert admin.topics()
    assert admin.status()
"""


@pytest.fixture
def open_path() -> Iterator[Path]:
    with reachable_folder() as folder:
        yield folder / "store"


@pytest.fixture
def store(open_path: Path) -> Iterator[StoreProcess]:
    with GroupStore(open_path, **SETTINGS) as found:
        yield found


def test_one_user_leaves_sessions_for_others_and_for_root(store: StoreProcess) -> None:
    """A user has at most half, both users together leave those that are kept."""
    programs = []
    try:
        for uid, most, why in (
            (USER, 20, f"user {USER} has its 20 sessions: close some, or raise max_sessions_per"),
            (OTHER, 12, "the store has 32 of its 40 sessions (8 are kept for the store's user"),
        ):
            program = run_as(uid, GROUP, TAKE_ALL, store.path, stdin=subprocess.PIPE)
            programs.append(program)
            assert program.stdout is not None
            said = program.stdout.readline()
            assert said.startswith(f"{most} SERVICE_NOT_AVAILABLE {why}")
        silo("status", store=store.path)
        with Producer(store.path) as producer:
            producer.send("t", b"x")
    finally:
        for program in programs:
            program.communicate(timeout=WAIT_S)
    eventually(lambda: store.control.load("sessions") == 0, "all are gone")
    store.replace("registry")
    with run_as(USER, GROUP, TAKE_ALL, store.path, stdin=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("20 ")
        # A registry that takes over still knows whose sessions these are.
        store.replace("registry")
        with run_as(USER, GROUP, TAKE_ALL, store.path, stdin=subprocess.DEVNULL) as second:
            assert second.stdout is not None
            assert second.stdout.readline().startswith(f"0 SERVICE_NOT_AVAILABLE user {USER} has")


@pytest.mark.parametrize("who", ["stranger", "admin", "everybody"])
def test_topics_groups_and_offsets_are_altered_by_those_who_may(open_path: Path, who: str) -> None:
    # The group that may connect is that of the client in each case.
    group = ADMINS if who == "admin" else GROUP
    settings: dict[str, Any] = {
        "socket_group": group,
        "admin_group": ADMINS,
        "acl_enable": who != "everybody",
    }
    with GroupStore(open_path, **settings) as store:
        with Admin(store.path) as admin:
            admin.create_topic("ordinary", 1)
        program = run_as(USER, group, ALTER, store.path, stderr=subprocess.PIPE)
        out, err = program.communicate(timeout=WAIT_S)
        assert program.returncode == 0, err
        said = dict(line.split(" ", 1) for line in out.splitlines())
        assert list(said) == ["create", "reset", "forget", "update", "delete", "clean"]
        with Admin(store.path) as admin:
            names = {topic.topic for topic in admin.topics()}
        assert "%RETRY%own" in names  # what ordinary clients need is made
        if who == "stranger":
            assert names.isdisjoint({"made"})
            assert "ordinary" in names
            for answer in said.values():
                assert answer.startswith(f"MESSAGE_ILLEGAL user {USER} may not alter topics,")
                assert f"members of group {ADMINS} (admin_group) may" in answer
        else:
            assert set(said.values()) <= {"done"}, said
            assert "made" in names
            assert "ordinary" not in names


@pytest.mark.parametrize("session", [False, True])
def test_descriptors_of_a_client_do_not_stop_the_registry(
    store: StoreProcess, *, session: bool
) -> None:
    registry = store.pid("registry")
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.connect(str(store.path / SOCKET))
    if session:
        end.send(b'{"do": "hello", "protocol": 2, "ring_size": 65536}')
        end.recv(65536)
    peers = []
    for _ in range(3):
        evil, others = lingering(10)
        peers += others
        try:
            socket.send_fds(end, [b'{"do": "report"}'], [evil.fileno()])
        except (PermissionError, BrokenPipeError, ConnectionResetError):
            # The kernel refuses it, or the registry has hung up: nobody else closes it.
            evil.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        evil.close()
    end.close()
    began = time.monotonic()
    for _ in range(3):
        with Producer(store.path) as producer:
            producer.send("t", b"x")
    assert time.monotonic() - began < 8  # of the 30 s that the sockets would have kept it
    assert store.pid("registry") == registry
    for peer in peers:
        peer.close()


FLOOD = """
ends = [greeted() for _ in range(12)]
packet = b'{"do": "watch", "slots": [' + b",".join([b"0"] * 30000) + b"]}"
print("ready", flush=True)
while True:
    for end in ends:
        end.send(packet)
    for end in ends:
        end.recv(65536)
"""


def test_a_flood_of_the_largest_requests_leaves_turns_for_others(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        producer.send("t", b"x")
    with run_as(USER, GROUP, FLOOD, store.path) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            for _ in range(20):
                with Producer(store.path) as producer:
                    producer.send("t", b"x")
            assert program.poll() is None
        finally:
            program.kill()


HOARD = """
ends = [greeted() for _ in range(5)]
for end in ends:
    for number in range(1, 256):
        end.send(b"%d/256 " % number + bytes(65520))
print("ready", flush=True)
sys.stdin.read()
"""
LONG_REQUEST = """
from silomq.client.session import Connection
from silomq.shm.protocol.requests import Join, Start
start = Start("time", {"t": dict.fromkeys(range(10_000), 0)})
link = Connection(sys.argv[1])
try:
    for _ in range(2):
        link.request(Join("g", "clustering", {"t": ("TAG", "*")}, start))
    print("joined")
except IllegalMessage as refused:
    print(refused.status.name, refused.why)
    link.request(Join("g", "clustering", {"t": ("TAG", "*")}, Start("earliest")))
link.close()
"""


def test_requests_that_one_user_never_ends_keep_no_other_from_asking(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        producer.send("t", b"x")
    said = {}
    with run_as(USER, GROUP, HOARD, store.path, stdin=subprocess.PIPE) as hoarder:
        assert hoarder.stdout is not None
        assert hoarder.stdout.readline() == "ready\n"
        for uid in (OTHER, USER):
            asking = run_as(uid, GROUP, LONG_REQUEST, store.path)
            said[uid], _ = asking.communicate(timeout=WAIT_S)
            assert asking.returncode == 0
        hoarder.communicate()
    assert said[OTHER] == "joined\n"
    assert said[USER] == "SERVICE_NOT_AVAILABLE too many long requests at once: try again\n"
