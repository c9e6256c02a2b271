"""Many open transactions: a start finds them all, each is checked, and its answer is obeyed."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import pytest
from support.deliveries import collect
from support.harness import LONG, StoreProcess, eventually
from support.transaction_load import NOTHING_WAITS

from silomq import TransactionProducer

TOPIC, GROUP = "t", "pg"
SETTINGS: dict[str, Any] = {
    "transaction_timeout_ms": 3_600_000,
    "transaction_check_interval_ms": 3_600_000,
}


def resident_mib(pid: int) -> float:
    """The memory of a process that is its own."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize() / 2**20


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=LONG)])
def test_many_are_open(tmp_path: Path, count: int) -> None:
    store = StoreProcess(tmp_path / "store", **SETTINGS)
    with store:
        empty = resident_mib(store.pid("transactions"))
        began = time.monotonic()
        with TransactionProducer(store.path, GROUP, timeout=30.0) as producer:
            for number in range(count):
                producer.begin(TOPIC, b"%d" % number)
        print(f"{count} begun in {time.monotonic() - began:.1f} s")
        store.stop()
    # On a busy machine the first checks may come before the producer: it is asked again.
    store.settings.update(transaction_timeout_ms=1000, transaction_check_interval_ms=10_000)
    said = store.log().count("open transactions")
    began = time.monotonic()
    with store:
        eventually(lambda: store.log().count("open transactions") > said, "they are found", 120.0)
        print(f"found {time.monotonic() - began:.1f} s after the start")
        full = resident_mib(store.pid("transactions"))
        print(f"memory {empty:.0f} MiB, with them {full:.0f} MiB")
        asked: set[int] = set()

        def check(message: object) -> bool:
            number = int(message.body)  # type: ignore[attr-defined]
            asked.add(number)
            return number % 2 == 0

        with TransactionProducer(store.path, GROUP, check=check, timeout=30.0):
            began = time.monotonic()
            wanted = [b"%d" % number for number in range(0, count, 2)]
            eventually(lambda: store.control.load("trans_floor") == NOTHING_WAITS, "all end", 600.0)
            print(f"checked and ended within {time.monotonic() - began:.1f} s")
        found = collect(store.path, TOPIC, wanted, timeout=120.0, grace=0.5)
        found.check(dict.fromkeys(wanted, 0))
