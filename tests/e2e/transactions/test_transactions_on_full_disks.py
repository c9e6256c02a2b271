"""Transactions while the disk is full: refused decisions come again, accepted ones are obeyed as
soon as there is space, and no process dies over it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from support import small_disks as disks
from support.harness import LONG, StoreProcess, eventually
from support.transaction_load import QUICK, TOPIC, Transactions

from silomq import IllegalMessage, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Nobody looks how full the disk is: it runs full in the middle of things.
UNWATCHED: dict[str, Any] = {**QUICK, "clean_resource_interval_ms": 3_600_000}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    with disks.small_disk(tmp_path / "disk", 24 * disks.MIB) as folder:
        yield folder


def taken(do: Callable[[], object]) -> bool:
    """Does it; whether the store has taken it."""
    try:
        do()
    except IllegalMessage:
        return False
    return True


def fill_log(store: StoreProcess) -> None:
    """Sends until the log has no space either."""
    with Producer(store.path, timeout=10.0) as producer:
        for _ in range(100_000):
            if not taken(lambda: producer.send("other", b"x" * 200)):
                return
    raise AssertionError("the disk does not fill up")


@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=LONG)])
@pytest.mark.parametrize("killed", [False, True], ids=["", "the process dies on it"])
def test_the_disk_is_full_while_transactions_are_open(
    small_disk: Path, rounds: int, *, killed: bool
) -> None:
    with StoreProcess(small_disk / "store", **UNWATCHED) as store, Transactions(store.path) as load:
        load.run(10)
        for number in range(-5, -5 * rounds - 1, -5):
            kept = load.producer.begin(TOPIC, b"%d" % number, first_check=3600)
            load.stored_ms[number] = kept.half.store_timestamp
            load.run(10)  # some of them are open still
            ballast = disks.fill_to(small_disk, 100)
            fill_log(store)
            before = len(load.stored_ms)
            load.run(5)
            assert len(load.stored_ms) == before, "no half is taken"
            with pytest.raises(IllegalMessage):
                kept.commit()
            pids = store.pids()
            if killed:
                store.replace("transactions")
                pids = store.pids()
            time.sleep(1.0)  # checks are due, which cannot be put
            ballast.unlink()
            eventually(partial(taken, kept.commit), "the decision is taken")
            assert store.pids() == pids, "nobody died"
        load.run(10)
        load.await_end(store)
