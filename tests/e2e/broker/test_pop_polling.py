"""Pops that wait, notifications, and assignments of clients that let the broker divide."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from support.broker_requests import heart_beat, pop_fields
from support.harness import eventually
from support.popping import (
    COUNT,
    FULL,
    NOT_FOUND,
    NOTIFY,
    PEEK,
    POP,
    Popper,
    address_of,
    send,
    texts,
)
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from support.brokers import BrokerProcess


def test_a_pop_is_held_until_a_message_comes(popper: Popper) -> None:
    send(popper.client, popper.topic, "first")
    popper.ack(*popper.pop())
    asked = {**pop_fields(popper.topic, popper.group), "pollTime": 20_000}
    waiting = popper.client.send(POP, asked)
    with RemotingClient(address_of(popper.client)) as other:
        eventually(lambda: _held(other, popper) == 1, "the pop is held")
        send(other, popper.topic, "second", queue_id=3)
    assert texts(popper.messages(popper.client.answer(waiting))) == ["second"]


def _held(client: RemotingClient, popper: Popper) -> int:
    asked = {"consumerGroup": popper.group, "topic": popper.topic, "queueId": -1}
    return int(client.ask(COUNT, asked).fields["pollingNum"])


def test_a_pop_is_held_until_a_lease_ends(popper: Popper) -> None:
    """The lease begins while both pops are held: one gets the message, later the other one."""
    send(popper.client, popper.topic, "first")
    popper.ack(*popper.pop())
    asked = {**pop_fields(popper.topic, popper.group), "pollTime": 20_000, "invisibleTime": 400}
    waiting = popper.client.send(POP, asked)
    with RemotingClient(address_of(popper.client)) as other:
        second = other.send(POP, asked)
        eventually(lambda: _held(popper.client, popper) == 2, "both are held")
        send(other, popper.topic, "second")
        began = time.monotonic()
        answers = [popper.client.answer(waiting), other.answer(second)]
    took_s = time.monotonic() - began
    assert [texts(popper.messages(answer)) for answer in answers] == [["second"]] * 2
    assert 0.3 < took_s < 3, f"{took_s:.1f} s"


def test_a_poll_ends(popper: Popper) -> None:
    send(popper.client, popper.topic, "first")
    popper.ack(*popper.pop())
    began = time.monotonic()
    assert popper.ask(pollTime=500).code == NOT_FOUND
    assert 0.3 < time.monotonic() - began < 3
    late = int(time.time() * 1000) - 10_000
    assert popper.ask(pollTime=500, bornTime=late).code == NOT_FOUND


def test_notifications(popper: Popper) -> None:
    send(popper.client, popper.topic, "first")
    asked = {
        "consumerGroup": popper.group, "topic": popper.topic, "queueId": -1, "pollTime": 0,
        "bornTime": 0,
    }  # fmt: skip
    assert popper.client.ask(NOTIFY, asked).fields == {"hasMsg": "true", "pollingFull": "false"}
    popper.pop(invisibleTime=300)
    assert popper.client.ask(NOTIFY, asked).fields["hasMsg"] == "false"
    began = time.monotonic()
    answer = popper.client.ask(NOTIFY, {**asked, "pollTime": 20_000})
    assert answer.fields["hasMsg"] == "true", "its time is over"
    assert time.monotonic() - began < 5
    peeked = popper.client.ask(PEEK, {**asked, "maxMsgNums": 5})
    assert (peeked.code, len(peeked.body) > 0) == (0, True)
    assert texts(popper.pop()) == ["first"], "a peek leases nothing"


def test_too_many_pops_are_not_held(popper: Popper) -> None:
    send(popper.client, popper.topic, "a")
    popper.pop()
    asked = {**pop_fields(popper.topic, popper.group), "pollTime": 10_000}
    held = [popper.client.send(POP, asked) for _ in range(1025)]
    assert popper.client.answer(held[-1]).code == FULL
    popper.client.close()


def test_assignments(client: RemotingClient, topic: str, broker: BrokerProcess) -> None:
    send(client, topic, "a")
    asked = {
        "clientId": "c1", "consumerGroup": f"g-{topic}", "messageModel": "CLUSTERING",
        "strategyName": "AVG", "topic": topic,
    }  # fmt: skip

    def query(**other: object) -> list[tuple[int, str]]:
        body = json.dumps({**asked, **other}).encode()
        found = json.loads(client.ask(400, {}, body).body)
        return [
            (one["messageQueue"]["queueId"], one["mode"])
            for one in found.get("messageQueueAssignments", [])
        ]

    assert query() == [], "no member yet"
    with RemotingClient(broker.address) as other:
        for each, name in ((client, "c1"), (other, "c2")):
            each.ask(34, {}, heart_beat(name, f"g-{topic}"))
        assert query() == [(0, "PULL"), (1, "PULL")]
        assert query(clientId="c2", strategyName="AVG_BY_CIRCLE") == [(1, "PULL"), (3, "PULL")]
        mode: dict[str, object] = {"consumerGroup": f"g-{topic}", "topic": topic, "mode": "POP"}
        assert client.ask(401, {}, json.dumps(mode).encode()).code == 0
        assert query() == query(clientId="c2") == [(-1, "POP")]
        modes = json.loads(client.ask(402).body)["messageRequestModeMap"]
        assert modes[topic][f"g-{topic}"]["mode"] == "POP"
    for wrong, code in (
        ({"topic": "%RETRY%g"}, 16), ({"topic": "none"}, 17), ({"consumerGroup": "none"}, 26),
        ({"mode": "PUSH"}, 29),
    ):  # fmt: skip
        body = json.dumps({**mode, **wrong}).encode()
        assert client.ask(401, {}, body).code == code


def test_the_end_of_a_lease_wakes_the_pop_of_its_queue(popper: Popper) -> None:
    """Also when another pop waits longer, for another queue, as RocketMQ's proxy has them."""
    send(popper.client, popper.topic, "a", "b", queue_id=1)
    in_order = {"order": "true", "maxMsgNums": 1}
    (first,) = popper.pop(queueId=1, **in_order)
    asked = {**pop_fields(popper.topic, popper.group), "pollTime": 20_000, **in_order}
    address = address_of(popper.client)
    with RemotingClient(address) as longer, RemotingClient(address) as waiting:
        longer.send(POP, {**asked, "queueId": 0})
        eventually(lambda: _held(popper.client, popper) == 1, "the first pop is held")
        opaque = waiting.send(POP, {**asked, "queueId": 1})
        eventually(lambda: _held(popper.client, popper) == 2, "both are held")
        popper.ack(first)
        answer = waiting.answer(opaque, 2.0)
    assert texts(popper.messages(answer)) == ["b"]


def test_a_new_group_begins_at_the_first_message_of_a_small_topic(popper: Popper) -> None:
    """Although it asks for what comes from now on, as RocketMQ's proxy does."""
    send(popper.client, popper.topic, "sent before")
    assert texts(popper.pop(initMode=1)) == ["sent before"]
