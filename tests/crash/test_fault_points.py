"""Kills exactly between two publish steps of append and of reput: the exactly-once argument of
`store/commitlog` and `store/dispatch`, step by step.

The store runs a build whose kernels die at a named point (`SILO_FAULT` in shm/words.h), once. The
load needs no luck: it passes every point more often than the test waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.checking.files import check_files
from support.checking.messages import check_store
from support.checking.sent import Sent
from support.harness import LONG, StoreProcess
from support.kill_points import ROOT, Fault, points_in
from support.load.sender import Sender

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet

TOPICS = ("alpha", "beta")
#: Files so small that the load fills several of each kind.
TINY: dict[str, Any] = {
    "mapped_file_size_commit_log": 65536,
    "max_message_size": 16384,
    "mapped_file_size_consume_queue": 20480,
    "max_hash_slot_num": 50,
    "max_index_num": 701,  # not a multiple of three keys: records lie in two files
}
#: The passes at which the process dies: the first, one in the middle of things, a late one.
POINTS: dict[str, tuple[int, ...]] = {
    "append:copied": (1, 20, 333),
    "append:patched": (1, 20, 333),
    "append:counted": (1, 20, 333),
    "append:results": (1, 20, 90),
    "append:wrote": (1, 20, 90),
    "append:tail": (1, 20, 90),
    "append:blank": (1, 2, 3),
    "reput:queue": (1, 18, 250),
    "reput:entry": (1, 80, 1000),
    "reput:slot": (1, 80, 1000),
    "reput:max": (1, 18, 250),
    "reput:progress": (1, 3, 8),
    "reput:generation": (1, 3, 8),
    "reput:published": (1, 3, 8),
}
LONG_PASSES = {
    "append": (2, 3, 5, 8, 13, 21, 34, 55),
    "append:blank": (1, 2, 3),
    "reput": (2, 3, 5, 6, 7),
}


def _cases() -> list[ParameterSet]:
    """(point, pass): the short form, then what the long form adds."""
    cases = []
    for point, passes in POINTS.items():
        more = LONG_PASSES.get(point, LONG_PASSES[point.partition(":")[0]])
        cases += [pytest.param(point, n) for n in passes]
        cases += [pytest.param(point, n, marks=LONG) for n in more if n not in passes]
    return cases


def load(store: StoreProcess) -> Sent:
    """Two producers in turn; every message has three keys, one of them shared by many."""
    sent = Sent()
    senders = [
        Sender(
            store.path,
            who,
            TOPICS,
            kind="keyed",
            queues=2,
            sent=sent,
            ring_size=65536,
            timeout=15.0,
        )
        for who in range(2)
    ]
    for turn in range(16):
        for sender in senders:
            sender.send(3)
            # Dispatch catches up, and so publishes, more often than the load alone makes it.
            store.await_dispatch()
        senders[turn % 2].send_window(20)
        senders[turn % 2].send_batch(10)
    for sender in senders:
        sender.close()
    return sent


@pytest.fixture
def run_to_death(fault_build: Path, tmp_path: Path) -> Callable[[str, int], StoreProcess]:
    """Runs the load against a store that dies at a point; the store, stopped and checked."""

    def run(point: str, passes: int) -> StoreProcess:
        fault = Fault(fault_build, tmp_path, point, passes).arm()
        with StoreProcess(tmp_path / "store", environ=fault.environ, **TINY) as store:
            sent = load(store)
            fault.assert_happened()
            starts = {name: store.starts(name) for name in store.pids()}
            assert starts == {name: 2 if name == fault.actor else 1 for name in starts}
            check_store(store, sent, TOPICS)
            store.stop()
        return store

    return run


@pytest.mark.parametrize(("point", "passes"), _cases())
def test_every_message_is_there_once_whoever_dies_where(
    run_to_death: Callable[[str, int], StoreProcess], point: str, passes: int
) -> None:
    check_files(run_to_death(point, passes))


def test_every_point_of_the_kernels_is_tried() -> None:
    kernels = [*(ROOT / "store").rglob("*.pyx"), *(ROOT / "store").rglob("*.h")]
    assert points_in(kernels) == set(POINTS)
