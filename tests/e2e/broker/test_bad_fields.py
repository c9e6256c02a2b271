"""Bad values in requests of every code: each gets an answer, and nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.broker_requests import GOOD, raw_frame, raw_spoiled, send_fields, spoiled
from support.remoting_client import RemotingClient

from silomq.broker.wire.command import Command, Serialization

if TYPE_CHECKING:
    from support.brokers import BrokerProcess

#: Requests under way at a time.
WINDOW = 100


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
