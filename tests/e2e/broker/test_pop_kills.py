"""Pops while processes are killed: leases and acknowledgements stay, and nothing is lost."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from support.brokers import BrokerProcess
from support.harness import WAIT_S, StoreProcess, eventually
from support.popping import NOT_FOUND, Popper, numbered, send, texts, until_found
from support.remoting_client import Disconnected, RemotingClient

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def test_leases_outlive_the_registry_and_the_whole_store(own: StoreProcess) -> None:
    with BrokerProcess(own.path) as broker, RemotingClient(broker.address) as client:
        popper = Popper(client, "work", "group")
        send(client, "work", *numbered(10))
        first = popper.pop(invisibleTime=60_000, maxMsgNums=4)
        short = popper.pop(invisibleTime=2000, maxMsgNums=2)
        popper.ack(first[0])
        pid = own.kill("registry")
        own.await_successor("registry", pid)
        popper.ack(first[1])
        assert popper.offset() == 2
        own.crash()
        own.start()
        eventually(lambda: _answers(popper), "the broker has met the store again")
        popper.ack(first[2])
        assert popper.offset() == 3
        found = texts(popper.pop())
        found += texts(until_found(popper)) if len(found) == 4 else []
        assert sorted(found) == numbered(6, 4), "the short ones again, not the leased one"
        assert texts(short) == numbered(2, 4)
        popper.ack(first[3])


def _answers(popper: Popper) -> bool:
    asked = {"consumerGroup": popper.group, "topic": popper.topic, "queueId": 0}
    return popper.client.ask(14, asked).code == 0


@pytest.fixture
def own(tmp_path: Path) -> Iterator[StoreProcess]:
    """A store of its own, for a broker at a port of its own."""
    with StoreProcess(tmp_path / "store", store_port=free_port()) as found:
        yield found
        assert "Traceback" not in found.log(), found.log()[-5000:]


def test_nothing_is_lost_while_everything_is_killed(own: StoreProcess, long_forms: bool) -> None:
    """Slow and dying consumers, kills of the registry, of the broker and of the whole store: each
    message is acknowledged at last, and none comes before its time unless it was acknowledged.
    """
    count, chance = 1500 if long_forms else 300, random.Random(7)
    deadline = time.monotonic() + (120 if long_forms else WAIT_S)
    done: set[str] = set()

    def consume(seed: int, address: str) -> None:
        own_chance = random.Random(seed)
        while len(done) < count and time.monotonic() < deadline:
            try:
                with RemotingClient(address) as client:
                    popper = Popper(client, "work", "group", invisibleTime=500, pollTime=1000)
                    while len(done) < count and time.monotonic() < deadline:
                        for message in popper.pop(maxMsgNums=own_chance.randrange(1, 33)):
                            if own_chance.random() < 0.8:
                                popper.ack(message)
                                done.add(message.text)
            except (OSError, AssertionError, Disconnected):
                time.sleep(0.05)

    broker = BrokerProcess(own.path).start()
    try:
        with RemotingClient(broker.address) as client:
            for queue_id in range(4):
                part = [f"{queue_id}-{number}" for number in range(count // 4)]
                send(client, "work", *part, queue_id=queue_id)
        with ThreadPoolExecutor(4) as threads:
            tasks = [threads.submit(consume, seed, broker.address) for seed in range(4)]
            for turn in range(12 if long_forms else 4):
                time.sleep(0.3 + chance.random() / 2)
                if turn % 4 == 3:
                    own.crash()
                    own.start()
                elif turn % 4 == 1:
                    broker.kill()
                    broker.start()
                else:
                    own.await_successor("registry", own.kill("registry"))
            for task in tasks:
                task.result()
        assert len(done) == count
        with RemotingClient(broker.address) as client:
            popper = Popper(client, "work", "group")
            eventually(lambda: popper.ask().code == NOT_FOUND, "nothing is left")
    finally:
        broker.kill()
