"""Halves of messages for light queues, and transactions that would be batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from interop.conformance.transactions import COMMIT, PREPARED, ROLLBACK, end
from support.broker_requests import send_fields
from support.harness import eventually

from silomq import StoreReader

if TYPE_CHECKING:
    from support.harness import StoreProcess
    from support.remoting_client import RemotingClient

ILLEGAL = 13
LIGHT = ("%LMQ%one", "%LMQ%two")


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    return {"enable_lmq": True, "enable_multi_dispatch": True}


def properties(**more: str) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in more.items())


def test_a_half_for_light_queues_reaches_them_when_it_is_committed(
    client: RemotingClient, store: StoreProcess, topic: str
) -> None:
    def prepare(key: str) -> Any:
        text = properties(
            UNIQ_KEY=key, TRAN_MSG="true", PGROUP="g", INNER_MULTI_DISPATCH=",".join(LIGHT)
        )
        answer = client.ask(10, send_fields(topic, sysFlag=PREPARED, properties=text), b"x")
        assert answer.code == 0, answer.remark
        return answer

    lost, kept = prepare("lost"), prepare("kept")
    assert end(client, lost, "g", ROLLBACK) == 0
    assert end(client, kept, "g", COMMIT) == 0
    with StoreReader(store.path) as reader:

        def arrived(name: str) -> bool:
            return reader.max_offset(name, 0) == 1

        eventually(lambda: reader.max_offset(topic, 0) == 1, "it is committed")
        for name in LIGHT:
            eventually(partial(arrived, name), f"it is in {name}")
            assert reader.at(name, 0, 0).message_id == "kept"


def test_a_batch_is_no_half(client: RemotingClient, store: StoreProcess, topic: str) -> None:
    """As a plain batch it would be delivered although nobody has committed it."""
    member = b"\0\0\0\x17" + bytes(12) + b"\0\0\0\1x\0\0"
    text = properties(UNIQ_KEY="batch", TRAN_MSG="true", PGROUP="g")
    assert client.ask(10, send_fields(topic, key="first"), b"plain").code == 0
    fields = send_fields(topic, sysFlag=PREPARED, properties=text, batch="true")
    answer = client.ask(10, fields, member + member)
    assert answer.code == ILLEGAL, answer.remark
    store.await_dispatch()
    with StoreReader(store.path) as reader:
        assert reader.max_offset(topic, 0) == 1
