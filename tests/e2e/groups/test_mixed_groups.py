"""Groups with members of both kinds: clients of the store, and clients of its broker."""

from __future__ import annotations

import itertools
import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from e2e.groups.members import QUEUES, take
from support.broker_requests import heart_beat
from support.brokers import BrokerProcess
from support.harness import eventually
from support.remote_members import Members
from support.remoting_client import RemotingClient

from silomq import Admin, GroupConsumer, Producer
from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.harness import StoreProcess

    from silomq import MessageView


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    """A port of its own, at which a broker that was killed listens again."""
    return {"store_port": free_port()}


@pytest.fixture(scope="module")
def broker(store: StoreProcess) -> Iterator[BrokerProcess]:
    with BrokerProcess(store.path) as found:
        yield found
        assert "defect" not in found.log(), found.log()[-6000:]


class Messages:
    """The messages of a test: 0, 1, ..., in turn to each queue."""

    def __init__(self, store: StoreProcess, topic: str) -> None:
        self.count = 0
        self._store, self._topic = store, topic

    def send(self, count: int) -> None:
        with Producer(self._store.path, timeout=30.0) as producer:
            for i in range(self.count, self.count + count):
                producer.send_oneway(self._topic, b"%d" % i, queue=i % QUEUES)
            producer.flush()
        self.count += count


class Scene:
    """A topic with messages, and a group's members of both kinds."""

    def __init__(self, store: StoreProcess, members: Members, topic: str, group: str) -> None:
        self.store, self.members, self.group, self.topic = store, members, group, topic
        self.messages = Messages(store, topic)

    def share(self) -> dict[str, int]:
        """How many of the topic's queues each member has as the registry sees it."""
        with Admin(self.store.path) as admin:
            state = admin.group(self.group)
        return {m.instance or f"local{m.session}": m.queues for m in state.members}

    def lag(self) -> int:
        with Admin(self.store.path) as admin:
            queues = admin.group(self.group).queues
        return sum(queue.lag for queue in queues if queue.topic == self.topic)

    def settle(self, count: int = 40) -> None:
        """Sends messages, all of which are consumed, and acknowledged."""
        self.messages.send(count)
        self.members.await_all(self.messages.count)
        eventually(lambda: self.lag() == 0, "all is acknowledged")

    def repeats(self) -> list[int]:
        """The messages that were consumed more than once."""
        found = sorted(self.members.consumed())
        return [one for one, again in itertools.pairwise(found) if one == again]


@pytest.fixture
def scene(store: StoreProcess, broker: BrokerProcess, topic: str, group: str) -> Iterator[Scene]:
    with Members(store.path, broker.address, group, topic, QUEUES) as members:
        yield Scene(store, members, topic, group)


def test_both_kinds_divide_alike_and_exactly_once_when_nothing_moves(scene: Scene) -> None:
    local = scene.members.local()
    scene.settle()
    remote = scene.members.remote("0-first@1")
    eventually(lambda: remote.queues() == [0, 1, 2, 3], "the first half")
    scene.settle()
    last = scene.members.remote("zzz@9")
    eventually(lambda: (remote.queues(), last.queues()) == ([0, 1, 2], [6, 7]), "three members")
    before = len(scene.members.consumed())
    scene.settle(400)
    assert len(scene.members.consumed()) - before == 400
    assert len(local.bodies) >= 40
    assert scene.repeats() == []
    shares = scene.share()
    assert (shares["0-first@1"], shares["zzz@9"]) == (4, 2)  # with the retry topic's queue


def test_members_come_and_go_in_both_directions(scene: Scene) -> None:
    first = scene.members.remote("a@1")
    scene.settle()
    local = scene.members.local()
    eventually(lambda: first.queues() == [4, 5, 6, 7] or first.queues() == [0, 1, 2, 3], "half")
    scene.settle()
    first.stop()
    scene.settle()
    second = scene.members.remote("b@1")
    scene.settle()
    local.stop()
    eventually(lambda: second.queues() == list(range(QUEUES)), "it has all queues")
    scene.settle()
    scene.members.local()
    scene.settle()
    assert scene.repeats() == []


def test_members_of_both_kinds_die(scene: Scene) -> None:
    for turn in range(2):
        remote = scene.members.remote(f"a@{turn}")
        local = scene.members.local()
        scene.settle(100)
        scene.messages.send(200)
        (remote.die if turn else local.die)()
        scene.settle(100)
        (local.die if turn else remote.die)()
    scene.members.local()
    scene.settle()


def test_an_orderly_member_keeps_its_lock_until_it_has_let_go(scene: Scene) -> None:
    remote = scene.members.remote("a@1", orderly=True)
    scene.settle()
    scene.members.local()
    eventually(lambda: remote.queues() == [0, 1, 2, 3], "half")
    scene.settle()
    second = scene.members.remote("b@1", orderly=True)
    eventually(lambda: second.queues() == [3, 4, 5], "queues of both")
    scene.settle()
    assert scene.repeats() == []
    per_queue: dict[int, list[int]] = {}
    for body in remote.bodies:
        per_queue.setdefault(body % QUEUES, []).append(body)
    assert all(found == sorted(found) for found in per_queue.values())


class Bare:
    """A member on the network that does nothing by itself."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, name: str) -> None:
        self.client = RemotingClient(broker.address)
        self.group, self.topic, self.name = group, topic, name

    def beat(self, model: str = "CLUSTERING") -> None:
        subscription = {"topic": self.topic, "subString": "*", "subVersion": 1}
        body = heart_beat(
            self.name, self.group, subscriptionDataSet=[subscription], messageModel=model
        )
        assert self.client.ask(34, body=body).code == 0

    def members(self) -> list[str]:
        answer = self.client.ask(38, {"consumerGroup": self.group})
        found: list[str] = json.loads(answer.body)["consumerIdList"]
        return sorted(found)

    def place(self, queue_id: int) -> dict[str, object]:
        return {"consumerGroup": self.group, "topic": self.topic, "queueId": queue_id}

    def lock(self, queue_id: int) -> bool:
        place = {"topic": self.topic, "queueId": queue_id, "brokerName": "broker-a"}
        body = {"clientId": self.name, "consumerGroup": self.group, "mqSet": [place]}
        answer = self.client.ask(41, body=json.dumps(body).encode())
        return bool(json.loads(answer.body)["lockOKMQSet"])


def poll_into(found: list[MessageView], member: GroupConsumer) -> list[MessageView]:
    found += member.poll(100, 0.05)
    return found


@pytest.fixture
def bare(broker: BrokerProcess, group: str, topic: str) -> Iterator[Bare]:
    found = Bare(broker, group, topic, "a@1")
    yield found
    found.client.close()


def test_a_member_waits_for_what_another_kind_has(
    store: StoreProcess, group: str, topic: str, bare: Bare
) -> None:
    messages = Messages(store, topic)
    messages.send(10 * QUEUES)
    local = GroupConsumer(store.path, group, topic, start="earliest", auto_ack=False)
    with local:
        got = take(local, 10 * QUEUES)
        local.ack([m for m in got if m.queue_offset in {0, 1, 2, 5}])
        bare.beat()
        assert len(bare.members()) == 2
        assert not bare.lock(0), "the store's client has it"
        asked = bare.client.send(14, bare.place(0))
        refused = bare.client.ask(15, {**bare.place(0), "commitOffset": 9})
        assert "client of the store" in str(refused.remark)
        bare.client.listen(0.3)
        assert asked not in bare.client.answers, "the queue is not given back yet"
        local.poll(1)  # gives back what was revoked
        assert bare.client.answer(asked).fields["offset"] == "3", "a gap is redelivered"
        assert bare.lock(0)
        later = bare.client.ask(15, {**bare.place(7), "commitOffset": 9})
        assert "client of the store" in str(later.remark), "the other half"
        assert bare.client.ask(15, {**bare.place(0), "commitOffset": 6}).code == 0
        local.ack_polled()
    # As the lock of queue 0 ends with the connection only after a minute, it is unlocked.
    body = {"clientId": "a@1", "consumerGroup": group, "mqSet": [
        {"topic": topic, "queueId": 0, "brokerName": "broker-a"}]}  # fmt: skip
    assert bare.client.ask(42, body=json.dumps(body).encode()).code == 0
    with GroupConsumer(store.path, group, topic) as local:
        bare.client.close()
        found: list[MessageView] = []
        eventually(lambda: poll_into(found, local) and len(local.assignment) == 9, "all")
        found += local.poll(100, 0.3)
        seen = sorted((m.queue[1], m.queue_offset) for m in found)
        assert seen[:4] == [(0, 6), (0, 7), (0, 8), (0, 9)], "from the last commit on"


def test_broadcasting_members_take_no_part(
    store: StoreProcess, group: str, topic: str, bare: Bare
) -> None:
    bare.beat("BROADCASTING")
    Messages(store, topic).send(QUEUES)
    with GroupConsumer(store.path, group, topic, start="earliest") as local:
        assert len(take(local, QUEUES)) == QUEUES
        eventually(lambda: local.poll(1) == [] and len(local.assignment) == QUEUES + 1, "all")


def test_offsets_are_reset_on_both_sides(scene: Scene) -> None:
    scene.members.local()
    scene.members.remote("a@1")
    scene.settle()
    with Admin(scene.store.path) as admin:
        admin.reset_offset(scene.group, scene.topic, dict.fromkeys(range(QUEUES), 1))
    eventually(lambda: len(scene.repeats()) == 40 - QUEUES, "all but the first of each come again")
    scene.settle()
    assert len(scene.repeats()) == 40 - QUEUES


def test_a_message_that_is_sent_back_comes_to_either_kind(
    store: StoreProcess, group: str, topic: str, bare: Bare
) -> None:
    messages = Messages(store, topic)
    messages.send(QUEUES)
    retry = {"consumerGroup": group, "topic": f"%RETRY%{group}", "queueId": 0}
    with GroupConsumer(store.path, group, topic, start="earliest") as local:
        first = take(local, QUEUES)[0]
        bare.beat()  # it does not subscribe to the retry topic, so the other reads it
        sent = bare.client.ask(
            36, {"offset": first.physical_offset, "group": group, "delayLevel": 1}
        )
        assert sent.code == 0
        again: list[MessageView] = []
        eventually(lambda: poll_into(again, local), "it comes")
        assert (again[0].body, again[0].reconsume_times) == (first.body, 1)
        local.nack(again[0], delay_level=1)
    assert bare.client.ask(14, retry).fields["offset"] == "1"
    pulled = {
        **retry, "queueOffset": 1, "maxMsgNums": 1, "sysFlag": 6, "subscription": "*",
        "suspendTimeoutMillis": 10_000, "commitOffset": 0, "subVersion": 1,
    }  # fmt: skip
    assert bare.client.ask(11, pulled).body.count(b"UNIQ_KEY") == 1


def test_processes_are_killed(scene: Scene, broker: BrokerProcess, long_forms: bool) -> None:
    """Every message is consumed, and progress goes on, whoever dies."""
    chance = random.Random(7)
    scene.members.remote("a@1")
    scene.members.remote("z@1")
    for name in ("registry", "broker", "store", "local") * (15 if long_forms else 1):
        local = scene.members.local()
        scene.messages.send(100)
        time.sleep(chance.random() * 0.5)
        if name == "registry":
            scene.store.replace("registry")
        elif name == "broker":
            broker.kill()
            broker.start()
        elif name == "store":
            scene.store.crash()
            scene.store.start()
        if name == "local":
            local.die()
        scene.messages.send(100)
        scene.members.await_all(scene.messages.count, 100)
        if name != "local":
            local.stop()
    scene.settle()
    assert len(scene.repeats()) < scene.messages.count / 2, "progress goes on"


def test_a_broker_that_is_replaced_does_not_shake_the_others(
    scene: Scene, broker: BrokerProcess, store: StoreProcess
) -> None:
    scene.members.remote("a@1")
    with GroupConsumer(store.path, scene.group, scene.topic, start="earliest") as local:
        mine = [(scene.topic, i) for i in range(4, QUEUES)]
        eventually(lambda: not local.poll(1) and sorted(local.assignment) == mine, "half")
        broker.kill()
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            assert not local.poll(10, 0.05)
            assert sorted(local.assignment) == mine
        broker.start()
        scene.messages.send(QUEUES)
        eventually(lambda: len(scene.members.consumed()) == 4, "the other half")
        assert len(take(local, 4)) == 4
        assert sorted(local.assignment) == mine
        assert scene.share()["a@1"] == 5
