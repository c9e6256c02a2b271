"""Bad values in requests of every code: each gets an answer, and nothing else changes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from support.broker_requests import (
    GOOD,
    VALUES,
    heart_beat,
    raw_frame,
    raw_spoiled,
    send_fields,
    spoiled,
)
from support.remoting_client import RemotingClient

from silomq.broker.wire.command import ANSWER, Command, Serialization

if TYPE_CHECKING:
    from support.brokers import BrokerProcess
    from support.harness import StoreProcess

#: Requests under way at a time.
WINDOW = 100
#: The names of topics.
LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")


def check(answer: Command, why: object) -> None:
    """An answer with a code, and a remark that a person can read."""
    assert 0 <= answer.code < 1000, why
    remark = answer.remark or ""
    assert "defect" not in remark, (why, remark)
    assert len(remark) < 2000, (why, remark[:200])


def ask_all(client: RemotingClient, code: int) -> int:
    asked = list(spoiled(code))
    for at in range(0, len(asked), WINDOW):
        part = asked[at : at + WINDOW]
        opaques = [client.send(code, one.fields, one.body) for one in part]
        for opaque, one in zip(opaques, part, strict=True):
            check(client.answer(opaque), (code, repr(one)[:400]))
    return len(asked)


@pytest.mark.parametrize("code", GOOD)
def test_every_bad_value_is_answered(broker: BrokerProcess, code: int) -> None:
    with RemotingClient(broker.address) as client:
        client.ask(10, send_fields(), b"x")
        count = ask_all(client, code)
        client.form = Serialization.ROCKETMQ
        count += ask_all(client, code)
        print(f"{code}: {count} requests")


def test_every_value_that_is_no_text_is_answered(client: RemotingClient) -> None:
    opaque = 1_000_000
    for code in GOOD:
        for fields in raw_spoiled(code):
            opaque += 1
            client.send_bytes(raw_frame(code, opaque, fields, GOOD[code].body))
            check(client.answer(opaque), (code, fields[:400]))


def test_names_from_the_network_stay_names(broker: BrokerProcess, store: StoreProcess) -> None:
    """After all of the above: no folder outside the rule, no line of a log that is not JSON."""
    with RemotingClient(broker.address) as client:
        for name in VALUES:
            client.ask(10, send_fields(name), b"x")
            client.ask(34, body=heart_beat("c1", name))
            client.ask(17, {"topic": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6})
            client.ask(200, body=json.dumps({"groupName": name}).encode())
    names = [found.name for found in (store.path / "consumequeue").iterdir()]
    assert [name for name in names if not LEGAL.fullmatch(name)] == []
    for line in (broker.log() + store.log_path.read_text()).splitlines():
        assert line.isprintable(), line[:500]
        assert len(line) < 5_000, line[:500]
        if line.startswith("{"):
            json.loads(line)


def test_what_a_client_answers_is_passed_on(broker: BrokerProcess) -> None:
    """A consumer may answer anything to what is relayed to it."""
    fields = {"consumerGroup": "asked", "clientId": "c1", "jstackEnable": "false"}
    with RemotingClient(broker.address) as consumer, RemotingClient(broker.address) as tool:
        assert consumer.ask(34, body=heart_beat("c1", "asked")).code == 0
        for message_id in ("", "x", "zz" * 16, "-1", "7F00000100002A9FFFFFFFFFFFFFFFFF"):
            check(tool.ask(309, {**fields, "msgId": message_id}), message_id)
        for form in Serialization:
            tool.form = form
            for code, more in (
                (100_000, {}), (-1, {}), (2**31 - 1, {}), (0, {"x" * 40_000: "y"}),
                (0, {"n": "\x01"}),
            ):  # fmt: skip
                opaque = tool.send(307, fields)
                asked = consumer.request_of_server(307)
                found = Command(code, more, b"told", asked.opaque, ANSWER)
                consumer.send_bytes(found.encode())
                answer = tool.answer(opaque)
                print(form, code, answer.code, answer.remark)
                assert answer.code == code or "does not fit" in (answer.remark or "")
        consumer.send_bytes(Command(0, {}, b"", 12345, ANSWER).encode())  # nobody has asked
        opaque = tool.send(307, fields)
        consumer.request_of_server(307)
        consumer.close()
        assert tool.answer(opaque, 5).code == 207, "its consumer has gone"
