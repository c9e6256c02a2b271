"""Consumers that pop over a socket: leases, receipts, time, order and dead letters."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from support.broker_requests import heart_beat, pop_fields, pull_fields
from support.checking.messages import read_topic
from support.harness import eventually
from support.popping import (
    NO_MESSAGE,
    NOT_FOUND,
    NOTIFY,
    POP,
    Popper,
    address_of,
    numbered,
    send,
    texts,
    until_found,
)
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from support.brokers import BrokerProcess
    from support.harness import StoreProcess

SHORT_MS = 300


def test_each_message_comes_once_and_the_offset_is_the_first_not_acknowledged(
    popper: Popper,
) -> None:
    send(popper.client, popper.topic, *numbered(40))
    first, second = popper.pop(), popper.pop()
    assert (texts(first), texts(second)) == (numbered(32), numbered(8, 32))
    assert popper.ask().code == NOT_FOUND
    popper.ack(*second, *first[1:])
    assert popper.offset() == 0
    popper.ack(first[0])
    assert popper.offset() == 40


def test_any_queue_and_one_queue(popper: Popper) -> None:
    for queue_id in range(4):
        send(popper.client, popper.topic, f"q{queue_id}", queue_id=queue_id)
    assert texts(popper.pop(queueId=2)) == ["q2"]
    assert sorted(texts(popper.pop(maxMsgNums=2)) + texts(popper.pop())) == ["q0", "q1", "q3"]


def test_what_is_not_acknowledged_comes_again_after_its_time(popper: Popper) -> None:
    send(popper.client, popper.topic, "a", "b", "c")
    began = time.monotonic()
    first = popper.pop(invisibleTime=SHORT_MS)
    popper.ack(first[1])
    assert popper.ask().code == NOT_FOUND
    again = until_found(popper)
    assert time.monotonic() - began >= SHORT_MS / 1000, "not before its time"
    assert [(one.text, one.times) for one in again] == [("a", 1), ("c", 1)]
    send(popper.client, popper.topic, "d")
    assert [(one.text, one.times) for one in popper.pop()] == [("d", 0)]


def test_old_and_made_up_receipts_move_nothing(popper: Popper, broker: BrokerProcess) -> None:
    send(popper.client, popper.topic, "a")
    (old,) = popper.pop(invisibleTime=SHORT_MS)
    (new,) = until_found(popper)
    popper.ack(old)  # RocketMQ answers SUCCESS to any receipt
    assert popper.change(old, 1).code == NO_MESSAGE
    other = Popper(popper.client, popper.topic, f"x-{popper.topic}")
    other.ack(new)  # its group has popped nothing
    fields = popper.named(new)
    for receipt, offset, code in (
        ("0 1 1 0 0 broker-a 0 0", 0, 0),
        (new.receipt, 7, NO_MESSAGE),
        ("x", 0, 1),
        (f"{2**63} 1 1 0 0 broker-a 0 0", 0, 1),
    ):
        asked = {**fields, "extraInfo": receipt, "offset": offset}
        assert popper.client.ask(200051, asked).code == code
    assert popper.offset() == 0
    assert "receipts that move nothing" in broker.log()
    popper.ack(new)
    assert popper.offset() == 1


def test_a_message_gets_another_time(popper: Popper) -> None:
    send(popper.client, popper.topic, "a", "b")
    first, second = popper.pop(invisibleTime=60_000)
    answer = popper.change(first, 100)
    assert answer.code == 0, answer.remark
    (again,) = until_found(popper)
    assert (again.text, again.times) == ("a", 1)
    popper.ack(popper.changed(first, answer))  # old by now
    assert popper.offset() == 0
    longer = popper.changed(again, popper.change(again, 60_000))
    popper.ack(again)
    assert popper.offset() == 0
    popper.ack(longer, second)
    assert popper.offset() == 2


def test_batches_of_acknowledgements(popper: Popper) -> None:
    send(popper.client, popper.topic, *numbered(10))
    messages = popper.pop()
    assert popper.batch_ack(messages[:3] + messages[5:]).code == 0
    assert popper.offset() == 3
    assert popper.batch_ack(messages).code == 0
    assert popper.offset() == 10
    assert popper.client.ask(200151).code == NO_MESSAGE


def test_in_order_a_queue_is_held_until_all_is_acknowledged(popper: Popper) -> None:
    send(popper.client, popper.topic, *numbered(6))
    asked = {"order": "true", "queueId": 0, "maxMsgNums": 3}
    first = popper.pop(**asked, attemptId="one")
    assert texts(first) == numbered(3)
    assert popper.ask(**asked, attemptId="two").code == NOT_FOUND
    assert texts(popper.pop(**asked, attemptId="one")) == numbered(3), "the same once more"
    popper.ack(*first[:2])
    assert popper.ask(**asked).code == NOT_FOUND
    waiting = popper.client.send(
        POP, {**pop_fields(popper.topic, popper.group), **asked, "pollTime": 20_000}
    )
    with RemotingClient(address_of(popper.client)) as other:
        Popper(other, popper.topic, popper.group).ack(first[2])
    found = popper.messages(popper.client.answer(waiting))
    assert texts(found) == numbered(3, 3), "the acknowledgement wakes who waits"


def test_a_message_that_comes_too_often_goes_to_the_dead_letters_once(
    popper: Popper, store: StoreProcess
) -> None:
    group = json.dumps({"groupName": popper.group, "retryMaxTimes": 2}).encode()
    assert popper.client.ask(200, {}, group).code == 0
    send(popper.client, popper.topic, "bad", "good")
    times = []
    for _ in range(3):
        found = until_found(popper, invisibleTime=50)
        times += [one.times for one in found if one.text == "bad"]
        popper.ack(*[one for one in found if one.text == "good"])
    assert times == [0, 1, 2]
    dead = f"%DLQ%{popper.group}"

    def buried() -> bool:
        assert popper.ask().code == NOT_FOUND
        return popper.offset() == 2

    eventually(buried, "it is acknowledged")
    store.await_dispatch()
    (letter,) = read_topic(store.path, dead)
    assert (letter.body, letter.reconsume_times) == (b"bad", 3)


def test_a_filter_acknowledges_what_it_does_not_take(popper: Popper) -> None:
    for number in range(40):
        send(popper.client, popper.topic, f"m{number}", tag="b" if number % 10 == 9 else "a")
    found = popper.pop(exp="b")
    while more := popper.pop(exp="b"):
        found += more
    assert texts(found) == ["m9", "m19", "m29", "m39"]
    popper.ack(*found)
    assert popper.offset() == 40


def test_a_retry_topic_of_rocketmq_is_popped_too(popper: Popper) -> None:
    retry = f"%RETRY%{popper.group}_{popper.topic}"
    send(popper.client, popper.topic, "own")
    made = {"topic": retry, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "order": "false"}
    assert popper.client.ask(17, made).code == 0
    send(popper.client, retry, "again")
    # What was sent made a group of that name, which RocketMQ's broker does not make.
    named = {"groupName": retry.removeprefix("%RETRY%"), "cleanOffset": "false"}
    assert popper.client.ask(207, named).code == 0
    found = popper.pop()
    assert sorted(texts(found)) == ["again", "own"]
    (again,) = [one for one in found if one.text == "again"]
    assert again.record.topic == popper.topic
    assert again.receipt.split(" ")[4] == "1"
    popper.ack(*found)
    asked = {"consumerGroup": popper.group, "topic": retry, "queueId": 0}
    assert popper.client.ask(14, asked).fields["offset"] == "1"


def test_a_retry_topic_of_another_group_is_not_popped(popper: Popper) -> None:
    """It has the name that RocketMQ gives to the retry topic of this group and topic."""
    client, other = popper.client, f"{popper.group}_{popper.topic}"
    send(client, popper.topic, "own")
    assert client.ask(200, {}, json.dumps({"groupName": other}).encode()).code == 0
    send(client, f"%RETRY%{other}", "of another group")
    assert texts(popper.pop()) == ["own"]
    assert popper.pop() == []
    asked = {"consumerGroup": popper.group, "topic": popper.topic, "queueId": -1, "pollTime": 0}
    assert client.ask(NOTIFY, asked).fields["hasMsg"] == "false"


def test_a_group_goes_from_popping_to_pulling_and_back(popper: Popper) -> None:
    send(popper.client, popper.topic, *numbered(10))
    popper.ack(*popper.pop(maxMsgNums=4))
    assert popper.offset() == 4
    client = popper.client
    client.ask(34, {}, heart_beat("c1", popper.group))
    pulled = client.ask(11, pull_fields(popper.topic, 4, consumerGroup=popper.group, maxMsgNums=3))
    assert pulled.fields["nextBeginOffset"] == "7"
    asked = {"consumerGroup": popper.group, "topic": popper.topic, "queueId": 0}
    assert client.ask(15, {**asked, "commitOffset": 7}).code == 0
    assert popper.offset() == 7
    time.sleep(1.1)  # so often the registry looks for commits of a group that pops
    rest = popper.pop()
    assert texts(rest) == numbered(3, 7)
    popper.ack(*rest)
    assert popper.offset() == 10


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"maxMsgNums": 33}, 29),
        ({"maxMsgNums": 0}, 29),
        ({"queueId": 4}, 29),
        ({"topic": "nowhere"}, 17),
        ({"expType": "SQL92", "exp": "a > 1"}, 1),
        ({"expType": "TAG", "exp": "a |||| b"}, NOT_FOUND),
        ({"consumerGroup": "a b"}, 13),
    ],
)
def test_what_is_refused(popper: Popper, fields: dict[str, object], code: int) -> None:
    send(popper.client, popper.topic, "a")
    popper.pop()
    assert popper.ask(**fields).code == code
