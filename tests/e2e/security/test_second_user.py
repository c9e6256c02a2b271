"""Attacks by another user of the machine: without rights, as a member of the store's group, and
before the store starts. docs/security.md says what is promised.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from support.harness import PYTHON, WAIT_S, StoreProcess, memory_of
from support.other_users import GROUP, OTHER, USER, GroupStore, reachable_folder, run_as

from silomq import Consumer, GroupConsumer, Producer
from silomq.shm import segments
from silomq.shm.control import SIZE, ActorState, Control
from silomq.shm.ownership import STARTUP

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root may be other users")


def said_by(uid: int, code: str, store: Path, group: str = GROUP) -> list[str]:
    """What a program says that runs as another user."""
    with run_as(uid, group, code, store, stderr=subprocess.PIPE) as program:
        out, err = program.communicate(timeout=WAIT_S)
        assert program.returncode == 0, err
        return out.splitlines()


def fill(path: Path) -> None:
    """Makes files of each kind, and leaves a member of a group."""
    with Producer(path) as producer:
        for number in range(20):
            producer.send("t", b"x", keys=[f"k{number}"])
    with GroupConsumer(path, "g", "t", start="earliest") as member:
        assert member.poll(5, timeout=20)


# -- users without rights

OPEN_ALL = """
tried = 0
for name in sys.stdin.read().split():
    for flags in (os.O_RDONLY, os.O_RDWR, os.O_RDONLY | os.O_DIRECTORY):
        tried += 1
        try:
            os.open(name, flags)
            print("opened", name)
        except (PermissionError, NotADirectoryError, IsADirectoryError):
            pass
try:
    Producer(sys.argv[1])
    print("connected")
except Exception as error:
    print(type(error).__name__)
print("tried", tried)
"""


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_a_user_without_rights_opens_nothing(umask: int) -> None:
    """Whatever the umask was, and even if the folders above each file were open."""
    before = os.umask(umask)
    try:
        with reachable_folder() as folder, StoreProcess(folder / "store") as store:
            fill(store.path)
            files = [store.path, *store.path.rglob("*")]
            for file in files:
                assert not stat.S_IMODE(file.lstat().st_mode) & stat.S_IRWXO, file
            memory = [Path("/dev/shm") / name for name in memory_of(store.path)]
            assert memory
            names = "\n".join(map(str, files + memory))
            with run_as(
                USER, GROUP, OPEN_ALL, store.path, stdin=subprocess.PIPE, stderr=subprocess.PIPE
            ) as program:
                out, err = program.communicate(names, timeout=WAIT_S)
                assert program.returncode == 0, err
            assert out.splitlines() == ["StoreClosed", f"tried {3 * len(files + memory)}"]
    finally:
        os.umask(before)


# -- members of socket_group


@pytest.fixture
def shared() -> Iterator[StoreProcess]:
    with (
        reachable_folder() as folder,
        GroupStore(folder / "store", socket_group=GROUP) as found,
    ):
        yield found


WRITE_ALL = """
import pathlib
tried = 0
for path in [pathlib.Path(sys.argv[1]), *pathlib.Path(sys.argv[1]).rglob("*")]:
    tried += 1
    tries = [lambda: path.rename(f"{path}.old"), lambda: path.chmod(0o777)]
    if path.is_dir():
        tries.append(lambda: (path / "planted").symlink_to("/etc/passwd"))
    elif not path.is_socket():
        tries += [lambda: os.open(path, os.O_WRONLY), lambda: os.truncate(path, 0), path.unlink]
    for act in tries:
        try:
            act()
            print("done", path)
        except PermissionError:
            pass
print("tried", tried > 20)
"""


def test_a_member_of_the_group_writes_to_no_file(shared: StoreProcess) -> None:
    fill(shared.path)
    assert said_by(USER, WRITE_ALL, shared.path) == ["tried True"]


GRASP = """
from silomq.shm import mail
kept = []
mail.close_all = lambda fds: kept.extend(fds)  # the descriptors that a client is handed
producer = Producer(sys.argv[1], ring_size=65536)
producer.send("t", b"x")
consumer = Consumer(sys.argv[1], "t", start="earliest")
while not consumer.poll(1, 1.0):
    pass
for name in os.listdir("/proc/self/fd"):
    try:
        where = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        continue
    if not ("silomq" in where or sys.argv[1] in where):
        continue
    for what, act in {
        "shrunk": lambda: os.ftruncate(int(name), 0),
        "grown": lambda: os.ftruncate(int(name), 1 << 30),
        "reopened": lambda: os.open(f"/proc/self/fd/{name}", os.O_RDWR),
    }.items():
        try:
            act()
            print(what, where.split(" ")[0].rpartition("-")[0] or where)
        except OSError:
            pass
print("tried", len(kept))
"""


def test_a_member_can_change_the_size_of_nothing_that_it_is_handed(shared: StoreProcess) -> None:
    """Its own ring and its own count of reads are its own to write to, and nothing else."""
    *done, tried = said_by(USER, GRASP, shared.path)
    assert set(done) <= {"reopened /memfd:silomq-ring", "reopened /memfd:silomq-reads"}
    assert int(tried.split()[1]) > 2
    with Producer(shared.path) as producer:
        producer.send("t", b"y")


SECRET = """
with Producer(sys.argv[1], ring_size=65536) as producer:
    for _ in range(200):
        producer.send("t", b"secret" * 100)
print("sent")
"""
LOOK = """
from silomq.client.session import Connection
from silomq.shm.ring import DATA
links = [Connection(sys.argv[1], 65536) for _ in range(4)]
print(any(any(memoryview(link.ring)[DATA:]) for link in links))
"""


def test_a_ring_shows_nothing_of_another_user(shared: StoreProcess) -> None:
    assert said_by(USER, SECRET, shared.path) == ["sent"]
    assert said_by(OTHER, LOOK, shared.path) == ["False"]


PASS_ON = """
end = greeted()
other = socket.socket(fileno=0)
socket.send_fds(other, [b"x"], [end.fileno()])
other.recv(1)
"""


def test_a_connection_that_is_passed_on_stays_its_makers(shared: StoreProcess) -> None:
    """The kernel says who made it, not who uses it."""
    mine, theirs = socket.socketpair()
    with run_as(USER, GROUP, PASS_ON, shared.path, stdin=theirs) as program:
        _, fds, _, _ = socket.recv_fds(mine, 1, 1)
        with socket.socket(fileno=fds[0]) as end:
            end.send(b'{"do": "create", "topic": "made", "queues": 1}')
            answer = end.recv(65536)
        assert f"user {USER} may not alter topics".encode() in answer
        mine.send(b"x")
        program.wait(WAIT_S)
    theirs.close()
    mine.close()


# -- users who come before the store

PLANT = """
what = open(0, "rb").read()
for kind in ("control", "table", "pool-0", "metrics", "junk"):
    place = pathlib.Path(f"/dev/shm/{sys.argv[1]}-{kind}")
    place.write_bytes(what)
    place.chmod(0o666)
pathlib.Path(f"/dev/shm/sem.{sys.argv[1]}-allocate").write_bytes(bytes(32))
print("planted")
"""


def forged_control(store_id: int, victim: int) -> bytes:
    """A control block that says: an actor of the killed run is the process `victim`, and bytes of
    the log are in the pool.
    """
    memory = segments.create_segment(store_id, "control", SIZE)
    control = Control(memory, STARTUP)
    control.create(store_id)
    born_ms = int(psutil.Process(victim).create_time() * 1000)
    control.store_process(0, victim, 1, born_ms, ActorState.READY)
    control.own("wrote").store(4096)
    found = bytes(memoryview(memory))
    segments.remove_all(store_id)
    return found


def plant(store: Path, victim: int) -> str:
    """Has another user make the store's objects in /dev/shm. Returns their prefix."""
    store_id = segments.store_identity(store)
    prefix = segments.object_name(store_id, "")[1:-1]
    with subprocess.Popen(
        [
            *PYTHON,
            "-c",
            f"import os, pathlib, sys; os.setuid({OTHER}){PLANT}",
            prefix,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        out, _ = program.communicate(forged_control(store_id, victim), timeout=WAIT_S)
        assert out == b"planted\n"
    return prefix


@pytest.fixture
def victim() -> Iterator[int]:
    """A process of root, which somebody else would like to see killed."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        assert process.poll() is None, "a start has killed it"
        process.kill()


def test_memory_that_a_stranger_planted_is_not_believed(victim: int) -> None:
    with reachable_folder() as folder:
        (folder / "store").mkdir()
        prefix = plant(folder / "store", victim)
        store = StoreProcess(folder / "store")
        with store:
            for name in memory_of(store.path):
                assert (Path("/dev/shm") / name).lstat().st_uid == 0, name
            with Producer(store.path) as producer:
                producer.send("t", b"x")
            with Consumer(store.path, "t", start="earliest") as consumer:
                assert [one.body for one in consumer.poll(5, timeout=20)] == [b"x"]
            assert not list(store.path.glob("recovery/*")), "bytes of the planted pool were kept"
        assert not list(Path("/dev/shm").glob(f"*{prefix}*"))


def test_a_store_of_an_ordinary_user_says_whose_the_planted_memory_is(victim: int) -> None:
    with reachable_folder() as folder:
        (folder / "store").mkdir()
        os.chown(folder / "store", USER, -1)
        prefix = plant(folder / "store", victim)
        code = (
            "import os, sys; import silomq.supervisor.main, silomq.store.recovery.look\n"
            f"os.setgid(65534); os.setuid({USER})\n"
            "from silomq.supervisor.__main__ import main\n"
            "sys.exit(main([f'store_path={sys.argv[1]}']))\n"
        )
        command = [*PYTHON, "-c", code, str(folder / "store")]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
            _, err = program.communicate(timeout=WAIT_S)
            assert program.returncode != 0
        assert f"user {OTHER} has made an object of this store's name" in err
        assert prefix in err
        for path in Path("/dev/shm").glob(f"*{prefix}*"):
            path.unlink()


def test_a_folder_that_everybody_may_write_is_refused() -> None:
    with reachable_folder() as folder:
        store = StoreProcess(folder / "store")
        store.path.mkdir()
        store.path.chmod(0o777)
        process: Any = store.launch()
        assert process.wait(WAIT_S) != 0
        assert f"chmod o-w {store.path}" in store.log()
        store.path.chmod(0o750)
        with store, Producer(store.path) as producer:
            producer.send("t", b"x")
