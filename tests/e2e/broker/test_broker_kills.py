"""The broker, the processes of its store and the whole store are killed under load: what was
acknowledged stays, and groups go on where they were.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.broker_load import Load
from support.broker_requests import GROUP, pull_fields, send_fields
from support.brokers import BrokerProcess
from support.checking.messages import read_topic
from support.harness import PYTHON, eventually
from support.remoting_client import Disconnected, RemotingClient

from silomq.bench.loopback import free_port
from silomq.shm.control import ACTORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.harness import StoreProcess


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    """A port of its own, at which a broker that was killed listens again."""
    return {"store_port": free_port()}


@pytest.fixture(scope="module")
def broker(store: StoreProcess) -> Iterator[BrokerProcess]:
    with BrokerProcess(store.path) as found:
        yield found
        assert "defect" not in found.log(), found.log()[-6000:]


def check(load: Load, store: StoreProcess) -> None:
    load.check_commit()
    store.await_dispatch()
    load.check(read_topic(store.path, load.topic))


def test_the_broker_is_killed(store: StoreProcess, broker: BrokerProcess, long_forms: bool) -> None:
    with Load(broker.address, "killed") as load:
        for _ in range(60 if long_forms else 3):
            time.sleep(1)
            broker.kill()
            broker.start()
        time.sleep(0.5)
    check(load, store)


def test_processes_of_the_store_are_killed(
    store: StoreProcess, broker: BrokerProcess, long_forms: bool
) -> None:
    chance = random.Random(5)
    with Load(broker.address, "actors") as load:
        for turn in range(200 if long_forms else 9):
            actor = ACTORS[turn % len(ACTORS)]
            pid = store.kill(actor)
            store.await_successor(actor, pid)
            time.sleep(chance.random() * 0.3)
    check(load, store)


def test_the_whole_store_is_restarted(
    store: StoreProcess, broker: BrokerProcess, long_forms: bool
) -> None:
    with Load(broker.address, "restarted") as load:
        for turn in range(20 if long_forms else 2):
            time.sleep(1)
            if turn % 2:
                store.stop()
            else:
                store.crash()
            time.sleep(turn % 3)  # a start at once, before the broker looks, is the harder one
            store.start()
            load.await_more()
    assert broker.log().count("met the store again") >= 2
    check(load, store)


def test_requests_without_a_store(store: StoreProcess, broker: BrokerProcess) -> None:
    with RemotingClient(broker.address) as client:
        assert client.ask(10, send_fields("t"), b"x").code == 0
        held = client.send(11, pull_fields("t", 1, sysFlag=6, suspendTimeoutMillis=30_000))
        time.sleep(0.3)
        store.stop()
        assert client.answer(held, 5).code == 14, "a held pull is told"
        for code, fields in (
            (10, send_fields("t")), (11, pull_fields("t")), (30, {"topic": "t", "queueId": 0}),
            (14, {"topic": "t", "queueId": 0, "consumerGroup": "readers"}),
            (105, {"topic": "t"}), (33, {"offset": 0}),
        ):  # fmt: skip
            assert client.ask(code, fields, b"x").code == 14, code
        store.start()
        eventually(lambda: client.ask(10, send_fields("t"), b"x").code == 0, "it goes on")
        assert client.ask(11, pull_fields("t")).code == 0


def test_sigterm_under_load(store: StoreProcess, broker: BrokerProcess) -> None:
    with Load(broker.address, "ended") as load:
        time.sleep(1)
        began = time.monotonic()
        broker.running.send_signal(signal.SIGTERM)
        assert broker.running.wait(10) == 0
        print(f"ended within {time.monotonic() - began:.2f} s")
        broker.start()
        time.sleep(0.5)
    assert "Traceback" not in broker.log()
    check(load, store)


_ENDS_AT_ONCE = """
import os, signal, sys
from silomq.broker.server import serve
from silomq.broker.wire.address import Address
from silomq.conf.broker_settings import load
from silomq.conf.logging import configure

configure("store", "broker")
serve(
    sys.argv[1], load(), Address("127.0.0.1", 0), 30.0, lambda bound: None,
    ready=lambda: os.kill(os.getpid(), signal.SIGTERM),
)
"""


def test_sigterm_at_the_moment_in_which_it_says_that_it_runs(store: StoreProcess) -> None:
    done = subprocess.run(
        [*PYTHON, "-c", _ENDS_AT_ONCE, str(store.path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert events[-2:] == ["broker running", "broker stopped"]


def test_a_deleted_topic_ends_its_held_pulls(store: StoreProcess, broker: BrokerProcess) -> None:
    """The queue of another topic may get the place of the deleted one."""
    with RemotingClient(broker.address) as client, RemotingClient(broker.address) as other:
        fields = {"topic": "old", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
        assert client.ask(17, fields).code == 0
        held = client.send(11, pull_fields("old", 0, sysFlag=6, suspendTimeoutMillis=30_000))
        time.sleep(0.2)
        assert other.ask(215, {"topic": "old"}).code == 0
        for number in range(20):
            topic = f"new{number}"
            began = time.monotonic()
            assert other.ask(10, send_fields(topic), b"x").code == 0
            assert time.monotonic() - began < 1, "nobody waits for a pull that is held"
        try:
            answer = client.answer(held, 15)
            assert answer.code == 17, answer
        except Disconnected:
            pytest.fail("the connection ended")
    assert store.running.poll() is None


def test_an_offset_that_comes_between_two_stores(
    store: StoreProcess, broker: BrokerProcess
) -> None:
    """The broker may not have noticed yet that its store is another one."""
    with RemotingClient(broker.address) as client:
        for number in range(20):
            assert client.ask(10, send_fields("between", f"K{number}"), b"x").code == 0
        eventually(lambda: client.ask(11, pull_fields("between")).code == 0, "they are dispatched")
        place = {"consumerGroup": GROUP, "topic": "between", "queueId": 0}
        for offset in range(1, 4):
            told = {**place, "commitOffset": offset}
            assert client.ask(15, told).code == 0
            store.crash()
            store.start()
            late = client.ask(15, {**place, "commitOffset": offset + 10})
            wanted = offset + 10 if late.code == 0 else offset
            eventually(lambda: client.ask(14, place).code == 0, "the broker meets the store")
            assert client.ask(14, place).fields["offset"] == str(wanted), late


def test_a_broker_can_be_asked_what_it_does(store: StoreProcess, broker: BrokerProcess) -> None:
    if broker.ended:
        broker.start()
    broker.running.send_signal(signal.SIGUSR1)
    eventually(lambda: "most recent call first" in broker.log(), "it writes its stacks")
    with RemotingClient(broker.address) as client:
        assert client.ask(106).code == 0
