"""A new store with the settings that are shipped: small in memory and on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.harness import StoreProcess, eventually

from silomq import Producer
from silomq.store.commitlog.ahead import LEAST_WINDOW
from silomq.store.disk import files as disk
from silomq.store.disk.sparse import data_span

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
GIB = 1 << 30
#: Nothing of what is shipped is changed, but that the tests' disk may be rather full.
SHIPPED = {"clean_file_forcibly_enable": "false", "log_level": "info"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "store", base=SHIPPED) as store:
        yield store


def kib(path: Path, *fields: str) -> int:
    """The sum of some lines of a file in /proc, in KiB."""
    found = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return sum(int(found.get(field, "0 kB").split()[0]) for field in fields)


def resident(store: StoreProcess) -> int:
    """The memory of all processes, shared pages counted once, bytes."""
    return 1024 * sum(kib(Path(f"/proc/{pid}/smaps_rollup"), "Pss") for pid in store.family())


def locked(store: StoreProcess) -> int:
    return 1024 * sum(kib(Path(f"/proc/{pid}/status"), "VmLck") for pid in store.family())


def disk_use(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def at_rest(store: StoreProcess) -> bool:
    """Whether allocate has warmed what it should."""
    control = store.control
    return control.load("warmed") >= control.load("wrote") + LEAST_WINDOW


def test_a_new_store_with_one_message_is_small(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        producer.send("t", b"the first")
    eventually(lambda: at_rest(store), "the window is warm")
    assert locked(store) in (0, store.control.load("locked_bytes"))
    assert locked(store) <= LEAST_WINDOW + 2 * disk.WARM_STEP
    assert resident(store) <= 300 * MIB
    assert disk_use(store.path) <= 1.1 * GIB
    (file,) = (store.path / "commitlog").iterdir()
    assert file.stat().st_size == GIB, "RocketMQ opens files of full size"
    assert file.stat().st_blocks * 512 >= GIB, "no write into it can find the disk full"
    (index,) = (store.path / "index").iterdir()
    assert index.stat().st_size == 40 + 4 * 5_000_000 + 20 * 20_000_000


def test_what_append_has_written_is_not_locked_any_more(store: StoreProcess) -> None:
    body = b"x" * (3 << 20)
    with Producer(store.path) as producer:
        for _ in range(80):
            producer.send("t", body)
    wrote = store.control.load("wrote")
    assert wrote > 240 * MIB

    def follows() -> bool:
        """The window begins where append is, and the locks are those that allocate says."""
        control = store.control
        ahead = control.load("warmed") - wrote
        return at_rest(store) and locked(store) <= ahead + 2 * disk.WARM_STEP

    eventually(follows, "the window follows append")


@pytest.mark.parametrize("victim", ["allocate", "append"])
def test_the_window_goes_on_after_a_kill(store: StoreProcess, victim: str) -> None:
    with Producer(store.path) as producer:
        for _ in range(4):  # so few that the rate asks for no larger window
            producer.send("t", b"x" * (1 << 20))
        store.replace(victim)
        producer.send("t", b"after the kill")
    eventually(lambda: at_rest(store), "the window is warm")
    assert locked(store) <= LEAST_WINDOW + 2 * disk.WARM_STEP
    assert resident(store) <= 300 * MIB


def test_a_clean_stop_leaves_no_warmed_zeros_to_read(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        producer.send("t", b"the only one")
    eventually(lambda: at_rest(store), "the window is warm")
    store.stop()
    (file,) = (store.path / "commitlog").iterdir()
    with disk.Folder.open(file.parent) as folder, folder.file(file.name) as fd:
        assert data_span(fd, disk.PAGE) == (GIB, GIB), "behind the first page there is only a hole"
    assert file.stat().st_blocks * 512 >= GIB
    store.start()
