"""A member of `socket_group` can read all that a store has, whoever made the files, and when."""

from __future__ import annotations

import contextlib
import grp
import os
import shutil
import stat
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from support.harness import StoreProcess
from support.small_settings import SMALL, options

from silomq import Admin, Consumer, GroupConsumer, Producer, StoreError, StoreReader
from silomq.cli.main import main
from silomq.pipeline.source import snapshot
from silomq.store.disk import files as disk
from silomq.store.disk.sharing import share_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

#: A user that owns nothing.
NOBODY: Final = 65534
SETTINGS: Final[dict[str, Any]] = {
    "mapped_file_size_commit_log": 1 << 16,
    "max_message_size": 1 << 14,
    "mapped_file_size_consume_queue": 2000,
    "max_index_num": 500,
}


@pytest.fixture
def group() -> str:
    """A group that is not the primary one of this process."""
    name = next(g.gr_name for g in grp.getgrall() if g.gr_gid not in (os.getgid(), NOBODY))
    return str(name)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user may enter: pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="silomq-group-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def as_member(group: str, work: Callable[[], object]) -> None:
    """Does something as a user who is in the group and nothing else. It runs here once before, as
    that user may not be allowed to import what it needs.
    """
    work()
    gid = grp.getgrnam(group).gr_gid
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        said = b""
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(NOBODY)
            work()
        except BaseException:  # noqa: BLE001  handed to the parent, which fails with it
            said = traceback.format_exc().encode()
        os.write(writing, said[-60_000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert not said, said.decode()


def fill(store: StoreProcess, first: int) -> None:
    """Makes files of each kind: log, queues and index roll, a group has an ack file, a topic is
    deleted, a delayed message waits.
    """
    with Producer(store.path) as producer:
        for number in range(first, first + 600):
            producer.send_oneway(f"t{number % 3}", b"x" * 200, keys=[f"k{number}"])
        producer.send("t0", b"later", delay_level=18)
        producer.send("doomed", b"gone")
        producer.flush(30)
    store.await_dispatch()
    with GroupConsumer(store.path, f"g{first}", "t0", start="earliest") as member:
        assert member.poll(5, timeout=30)
    with Admin(store.path) as admin:
        admin.delete_topic("doomed")
        admin.create_topic(f"later{first}", 2)


def read_all(path: Path) -> None:
    """Every file, as a tool does that copies a store."""
    for file in path.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                opened.read(1)
        elif file.is_dir():
            assert list(file.iterdir()) is not None


def read_running(path: Path) -> None:
    """As clients do."""
    with Consumer(path, "t0") as consumer:
        assert consumer.poll(10, timeout=30)
    with StoreReader(path) as reader:
        assert reader.by_key("t1", "k1", 1)
    with GroupConsumer(path, "of-members", "t2", start="earliest") as member:
        found = member.poll(3, timeout=30)
        assert found
        member.ack(found)
    assert snapshot.take(path).queues
    assert main(["tail", "t0", "--from", "earliest", "--max", "3", "--store", str(path)]) == 0
    read_all(path)


def read_stopped(path: Path) -> None:
    """As tools and Spark's planning do."""
    assert snapshot.take(path).queues
    assert main(["verify", str(path), *options({**SMALL, **SETTINGS})]) == 0
    assert main(["dump", "commitlog", str(path), "--count", "2", *options(SETTINGS)]) == 0
    read_all(path)


def check_shared(path: Path, group: str) -> None:
    """Each folder gives its group to what is made in it, each file can be read by the group."""
    gid = grp.getgrnam(group).gr_gid
    for file in (path, *path.rglob("*")):
        about = file.stat()
        rights = 0o2050 if stat.S_ISDIR(about.st_mode) else 0o040
        assert about.st_gid == gid, file
        assert about.st_mode & rights == rights, (file, oct(about.st_mode))
        assert not about.st_mode & 0o007 or file != path, file


@contextlib.contextmanager
def running(folder: Path, umask: int, **settings: object) -> Iterator[StoreProcess]:
    """A store that runs with this umask."""
    before = os.umask(umask)
    try:
        with StoreProcess(folder / "store", **{**SETTINGS, **settings}) as store:
            yield store
    finally:
        os.umask(before)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_member_reads_all_that_a_store_makes(folder: Path, group: str, umask: int) -> None:
    with running(folder, umask, socket_group=group) as store:
        fill(store, 0)
        check_shared(store.path, group)
        as_member(group, lambda: read_running(store.path))
        store.stop()
    check_shared(store.path, group)
    as_member(group, lambda: read_stopped(store.path))


def test_a_member_reads_what_was_there_before_the_setting(folder: Path, group: str) -> None:
    """Files of a run without the setting, and of a program with another umask between two runs."""
    with running(folder, 0o077) as store:
        fill(store, 0)
        store.crash()
    with running(folder, 0o077, socket_group=group) as store:
        fill(store, 1000)
        store.stop()
        check_shared(store.path, group)
    with running(folder, 0o077) as store:
        fill(store, 2000)
        store.stop()
    with running(folder, 0o077, socket_group=group) as store:
        check_shared(store.path, group)
        as_member(group, lambda: read_running(store.path))
        store.stop()


def test_a_group_that_may_not_be_given_is_an_error_that_says_so(folder: Path, group: str) -> None:
    """Only the owner of a file can give it to a group, and only to one of its own."""
    (folder / "store").mkdir()
    gid = grp.getgrnam(group).gr_gid

    def give_away() -> None:
        with disk.Folder.open(folder / "store") as store:
            if os.geteuid() == 0:
                share_tree(store, gid)
                return
            with pytest.raises(StoreError, match="must own it"):
                share_tree(store, gid + 1)

    as_member(group, give_away)
