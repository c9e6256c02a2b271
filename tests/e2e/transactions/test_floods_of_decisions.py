"""A hostile client floods the store with decisions: other transactions go on within their time."""

from __future__ import annotations

import resource
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from support.deliveries import collect
from support.harness import PYTHON, StoreProcess, eventually
from support.transaction_load import NOTHING_WAITS

from silomq import TransactionProducer
from silomq.store.names import TRANS_END_TOPIC

TESTS = Path(__file__).parents[2]
TOPIC, GROUP = "t", "pg"
FLOOD = 1_000_000
#: The process may need so much more memory than before: it keeps nothing of what it refuses.
MORE_MIB = 48.0
SETTINGS: dict[str, Any] = {
    "transaction_timeout_ms": 3_600_000,
    "mapped_file_size_commit_log": 64 << 20,
}
RUN = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module('support.decision_flood', run_name='__main__', alter_sys=True)"
)


def resident_mib(pid: int) -> float:
    """The memory of a process that is its own."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize() / 2**20


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("nothing", "there is no half"),
        ("another group's", "the half is of another group"),
        ("ended", "the transaction has ended"),
    ],
)
def test_transactions_go_on_beside_a_flood(tmp_path: Path, kind: str, reason: str) -> None:
    with (
        StoreProcess(tmp_path / "store", **SETTINGS) as store,
        TransactionProducer(store.path, GROUP, timeout=30.0) as producer,
    ):
        named = producer.begin(TOPIC, b"named").half
        if kind == "ended":
            with producer.begin(TOPIC, b"ended") as ended:
                pass
            named = ended.half
            collect(store.path, TOPIC, [b"ended"], grace=0.1)
        pid = store.pid("transactions")
        before = resident_mib(pid)
        group = GROUP if kind == "ended" else "hostile"
        offsets = (str(named.queue_offset), str(named.physical_offset))
        said = kind if kind == "nothing" else "named"
        flood = subprocess.Popen(
            [*PYTHON, "-c", RUN, str(TESTS), str(store.path), said, str(FLOOD), *offsets, group],
            stdout=subprocess.PIPE,
            text=True,
        )
        with flood:
            assert flood.stdout is not None
            assert flood.stdout.readline() == "flooding\n"
            began = time.monotonic()
            wanted = [b"ended"] * (kind == "ended")
            while flood.poll() is None:
                with producer.begin(TOPIC, b"%d" % len(wanted)):
                    wanted.append(b"%d" % len(wanted))
                time.sleep(0.05)
            assert flood.stdout.readline() == "done\n"
            assert flood.returncode == 0
        with producer.begin(TOPIC, b"last"):
            wanted.append(b"last")
        # The process reads as fast as append stores, so it is not far behind.
        most = 5.0 + time.monotonic() - began
        began = time.monotonic()
        collect(store.path, TOPIC, wanted, timeout=most, grace=0.2).check(dict.fromkeys(wanted, 0))
        print(f"{kind}: the last came {time.monotonic() - began:.1f} s after {FLOOD} decisions")
        assert store.pid("transactions") == pid
        more = resident_mib(pid) - before
        print(f"memory grew by {more:.1f} MiB")
        assert more < MORE_MIB
        table = store.table
        (slot,) = table.find(TRANS_END_TOPIC).slots  # type: ignore[union-attr]
        assert table.queue_word(slot, "max_offset").load() > FLOOD
        eventually(lambda: reason in store.log(), "the store's log says what is refused")
        producer.begin(TOPIC, b"still open")
        assert store.control.load("trans_floor") != NOTHING_WAITS
