"""Each committed message comes exactly once, none that was rolled back, and each forgotten one is
checked, whoever is killed meanwhile: the process between each two of its steps, append over a
message of its, any process at any time, everything at once.
"""

from __future__ import annotations

import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.harness import LONG, StoreProcess, eventually, kill_now
from support.kill_points import ROOT, Fault, deaths, points_in
from support.transaction_load import QUICK, TOPIC, Transactions

from silomq import Consumer

if TYPE_CHECKING:
    from pathlib import Path

#: The passes at which the process dies. A turn passes the first two for messages, and for op
#: records.
#: The passes of the short form, and those that the long form adds.
POINTS = {
    "transactions:put": ((1, 2), (7,)),
    "transactions:answered": ((1, 3, 9), (2, 4)),
    "transactions:published": ((2, 7), (1,)),
}
VICTIMS = (
    ["transactions"],
    ["append"],
    ["registry"],
    ["reput"],
    ["transactions", "append"],
    ["transactions", "registry", "append", "reput", "flush"],
)


def await_ready(store: StoreProcess, actor: str) -> None:
    eventually(lambda: store.is_ready(actor), f"{actor} serves")


def die_at(fault_build: Path, folder: Path, point: str, passes: int, count: int = 30) -> None:
    """A load during which the process of `point` dies there once."""
    fault = Fault(fault_build, folder, point, passes).arm()
    with StoreProcess(folder / "store", environ=fault.environ, **QUICK) as store:
        with Transactions(store.path) as load:
            load.run(count, pause_s=0.005)
            load.await_end(store)
        fault.assert_happened()
        assert store.starts(fault.actor) == 2


@pytest.mark.parametrize(("point", "passes"), deaths(POINTS))
def test_the_process_dies_between_two_steps(
    tmp_path: Path, fault_build: Path, point: str, passes: int
) -> None:
    die_at(fault_build, tmp_path, point, passes)


@pytest.mark.parametrize("point", ["append:results", "append:wrote", "append:tail"])
def test_append_dies_over_a_message_or_an_op_record(
    tmp_path: Path, fault_build: Path, point: str
) -> None:
    die_at(fault_build, tmp_path, point, 60, count=40)


def test_an_unanswered_message_is_not_sent_again(tmp_path: Path, fault_build: Path) -> None:
    """The process dies behind it while append is frozen. Its successor waits for the answer."""
    fault = Fault(fault_build, tmp_path, "transactions:put")
    with (
        StoreProcess(tmp_path / "store", environ=fault.environ, **QUICK) as store,
        Transactions(store.path) as load,
    ):
        transaction = load.producer.begin(TOPIC, b"0")
        load.stored_ms[0], load.next = transaction.half.store_timestamp, 1
        pid = store.pid("transactions")
        store.kill("transactions", signal.SIGSTOP)
        transaction.commit()
        store.await_dispatch()
        fault.arm()
        append = store.kill("append", signal.SIGSTOP)
        kill_now(pid, signal.SIGCONT)
        eventually(fault.happened, "the process has died")
        eventually(lambda: store.pid("transactions") not in (0, pid), "it is replaced")
        for _ in range(3):
            store.await_beat("transactions")
        kill_now(append, signal.SIGCONT)
        load.await_end(store)
        assert load.asked == []


def test_every_point_of_the_process_is_tried() -> None:
    assert points_in((ROOT / "actors" / "transactions").glob("*.py")) == set(POINTS)


@pytest.mark.parametrize("rounds", [pytest.param(4), pytest.param(100, marks=LONG)])
def test_kills_at_any_time(tmp_path: Path, rounds: int) -> None:
    """In the long form 500 transactions are open all the time."""
    kill_at_any_time(tmp_path, rounds, 500 if rounds > 50 else 20)


@pytest.mark.parametrize("rounds", [pytest.param(1), pytest.param(50, marks=LONG)])
@pytest.mark.parametrize(
    "settings",
    [{"flush_disk_type": "SYNC_FLUSH"}, {"transient_store_pool_enable": "true"}],
    ids=["synchronous flush", "pool"],
)
def test_kills_with_other_ways_to_the_disk(
    tmp_path: Path, rounds: int, settings: dict[str, str]
) -> None:
    """Flush and commit, which answers and reading wait for here, are among the victims."""
    kill_at_any_time(tmp_path, rounds, 20, settings)


def kill_at_any_time(
    folder: Path, rounds: int, opened: int, settings: dict[str, str] | None = None
) -> None:
    chance = random.Random(rounds)
    more: dict[str, str] = settings or {}
    others = [["flush"], ["commit", "transactions"]] if "pool" in str(more) else [["flush"]]
    victims = [*VICTIMS, *others] if more else VICTIMS
    with (
        StoreProcess(folder / "store", **{**QUICK, **more}) as store,
        Transactions(store.path) as load,
    ):
        kept = [load.producer.begin(TOPIC, b"%d" % (-5 * (i + 1)), queue=0, first_check=3600)
                for i in range(opened)]  # fmt: skip
        for _ in range(rounds):
            load.run(30)
            for victim in chance.choice(victims):
                # The supervisor gives up a process that never gets ready.
                await_ready(store, victim)
                store.kill(victim)
            time.sleep(chance.random() * 0.2)
        eventually(store.all_ready, "all are replaced")
        for number, transaction in enumerate(kept):
            load.stored_ms[-5 * (number + 1)] = transaction.half.store_timestamp
            transaction.commit()
        load.await_end(store, f"{rounds} kills")


@pytest.mark.parametrize("rounds", [pytest.param(2), pytest.param(30, marks=LONG)])
def test_everything_is_killed_at_once(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    store = StoreProcess(tmp_path / "store", **QUICK)
    with store, Transactions(store.path) as load:
        for _ in range(rounds):
            load.run(30)
            time.sleep(chance.random() * 0.5)
            store.crash()
            store.start()
        load.await_end(store, f"{rounds} deaths of all", within_ms=60_000)


@pytest.mark.parametrize("pool", [False, True])
def test_open_transactions_go_on_at_the_next_start(tmp_path: Path, *, pool: bool) -> None:
    """After a clean stop, and with a log of which much is cleaned away or in a pool."""
    more = {"transient_store_pool_enable": "true"} if pool else {}
    store = StoreProcess(tmp_path / "store", **{**QUICK, **more})
    with store:
        with Transactions(store.path) as load:
            kept = [load.producer.begin(TOPIC, b"%d" % (5 * i), first_check=3600) for i in range(9)]
            load.next = 1
            for number, transaction in enumerate(kept):
                load.stored_ms[5 * number] = transaction.half.store_timestamp
            load.run(3)
            store.stop()
            store.start()
            for transaction in kept:
                transaction.commit()
            load.await_end(store, within_ms=60_000)
        with Consumer(store.path, TOPIC) as consumer:
            assert all(view.properties["TRAN_MSG"] == "true" for view in consumer.poll(100, 1.0))
