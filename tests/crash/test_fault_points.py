"""Kills exactly between two publish steps of append and of reput: the exactly-once argument of
`store/commitlog` and `store/dispatch`, step by step.

The store runs a build whose kernels die at a named point (`SILO_FAULT` in shm/words.h), once. The
load needs no luck: it passes every point more often than the test waits for.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from crash.checking import Ack, Sent, body_of, check_index, check_messages, check_twins
from support.harness import LONG, StoreProcess, eventually

from silomq import Message, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

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


@pytest.fixture(scope="module")
def fault_build() -> Path:
    """The folder of the build with fault points. CI must have one."""
    folder = os.environ.get("SILOMQ_FAULT_BUILD", "")
    if not folder:
        why = "no SILOMQ_FAULT_BUILD: `make fault-build` makes it, `make test` sets it"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return Path(folder)


class Load:
    """Two producers in turn; every message has three keys, one of them shared by many."""

    def __init__(self, store: StoreProcess) -> None:
        self.store = store
        self.producers = [Producer(store.path, ring_size=65536, timeout=15.0) for _ in range(2)]
        self.next = [0, 0]
        self.sent = Sent()

    def message(self, who: int) -> tuple[int, bytes, str]:
        sequence = self.next[who]
        self.next[who] += 1
        return sequence, body_of(who, sequence), f"all p{who}n{sequence}"

    def send(self, who: int) -> None:
        sequence, body, keys = self.message(who)
        topic = TOPICS[sequence % 2]
        result = self.producers[who].send(topic, body, keys=keys, queue=sequence // 2 % 2, tags="a")
        self.sent.acks.append(Ack.of(result, who, sequence))

    def send_window(self, who: int) -> None:
        window = []
        for _ in range(20):
            sequence, body, keys = self.message(who)
            future = self.producers[who].send_async(TOPICS[sequence % 2], body, keys=keys, queue=0)
            window.append((sequence, future))
        for sequence, future in window:
            self.sent.acks.append(Ack.of(future.result(), who, sequence))

    def send_batch(self, who: int) -> None:
        """A batch is acknowledged as a whole; its messages are looked for as oneway ones are."""
        messages = []
        for _ in range(10):
            sequence, body, keys = self.message(who)
            messages.append(Message(body, keys=keys, tags="b"))
            self.sent.oneway.append((who, sequence))
        result = self.producers[who].send_batch(TOPICS[who], messages, queue=1)
        assert result.count == len(messages)

    def run(self) -> None:
        for turn in range(16):
            for who in (0, 1):
                for _ in range(3):
                    self.send(who)
                # Dispatch catches up, and so publishes, more often than the load alone makes it.
                self.await_dispatch()
            self.send_window(turn % 2)
            self.send_batch(turn % 2)
        for producer in self.producers:
            producer.close()

    def await_dispatch(self) -> None:
        control = self.store.control
        eventually(lambda: control.load("dispatched") >= control.load("wrote"), "dispatch")


@pytest.fixture
def run_to_death(fault_build: Path, tmp_path: Path) -> Callable[[str, int], StoreProcess]:
    """Runs the load against a store that dies at a point; the store, stopped and checked."""

    def run(point: str, passes: int) -> StoreProcess:
        token = tmp_path / "token"
        token.touch()
        path = os.pathsep.join(filter(None, [str(fault_build), os.environ.get("PYTHONPATH", "")]))
        environ = {
            "PYTHONPATH": path,
            "SILOMQ_FAULT": f"{point}:{passes}",
            "SILOMQ_FAULT_TOKEN": str(token),
        }
        with StoreProcess(tmp_path / "store", environ=environ, **TINY) as store:
            load = Load(store)
            load.run()
            assert not token.exists(), f"{point} was not passed {passes} times"
            actor = point.partition(":")[0]
            starts = {name: store.starts(name) for name in store.pids()}
            assert starts == {name: 2 if name == actor else 1 for name in starts}
            check_index(store, check_messages(store, load.sent, TOPICS))
            store.stop()
        return store

    return run


@pytest.mark.parametrize(("point", "passes"), _cases())
def test_exactly_once(
    run_to_death: Callable[[str, int], StoreProcess], point: str, passes: int
) -> None:
    check_twins(run_to_death(point, passes))


def test_every_point_of_the_kernels_is_tried() -> None:
    root = Path(__file__).parents[2]
    text = "".join(
        (root / "store" / name).read_text() for name in ("_append.pyx", "_dispatch.pyx", "index.h")
    )
    assert set(re.findall(r'SILO_FAULT\("([a-z:]+)"\)', text)) == set(POINTS)
