"""Replies between clients of the store and clients on the network, through a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.broker_requests import pull_fields, send_fields
from support.brokers import BrokerProcess
from support.harness import StoreProcess, eventually
from support.remoting_client import RemotingClient

from silomq import Consumer, Message, Producer, RequestProducer
from silomq.store.names import REPLIES_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from silomq import MessageView
    from silomq.broker.wire.command import Command

SEND, SEND_REPLY, PUSH = 10, 324, 326
REPLIES = "DefaultCluster_REPLY_TOPIC"
LONG_S = 60.0


def beat(client: RemotingClient, client_id: str) -> None:
    body = {"clientID": client_id, "producerDataSet": [{"groupName": "askers"}]}
    assert client.ask(34, body=json.dumps(body).encode()).code == 0


def text(pairs: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())


def ask(client: RemotingClient, topic: str, client_id: str, ttl_ms: int = 30_000) -> None:
    """Sends a request as RocketMQ's clients do."""
    pairs = {"CORRELATION_ID": f"c-{topic}", "REPLY_TO_CLIENT": client_id, "TTL": str(ttl_ms)}
    fields = {**send_fields(topic), "properties": text(pairs)}
    assert client.ask(SEND, fields, b"question").code == 0


def pushed(client: RemotingClient) -> Command:
    found = client.request_of_server(PUSH)
    client.send_bytes(found.answer(0).encode())
    return found


def consumed(store: StoreProcess, topic: str) -> MessageView:
    """The first message of a topic."""
    with Consumer(store.path, topic) as consumer:
        (message,) = consumer.poll(1, LONG_S)
        return message


@pytest.fixture
def replier(store: StoreProcess) -> Iterator[Producer]:
    with Producer(store.path) as producer:
        yield producer


@pytest.fixture
def requester(broker: BrokerProcess) -> Iterator[RemotingClient]:
    with RemotingClient(broker.address) as connected:
        yield connected


def test_a_local_reply_is_pushed_to_a_client_on_the_network(
    store: StoreProcess, requester: RemotingClient, replier: Producer, topic: str
) -> None:
    beat(requester, "asks")
    ask(requester, topic, "asks")
    request = consumed(store, topic)
    assert request.properties["CLUSTER"] == "DefaultCluster"
    replier.reply(request, Message("answer", tags="a", flag=5))
    found = pushed(requester)
    assert found.body == b"answer"
    assert (found.fields["topic"], found.fields["flag"]) == (REPLIES, "5")
    for pair in (f"CORRELATION_ID\x01c-{topic}\x02", "MSG_TYPE\x01reply\x02", "TAGS\x01a\x02"):
        assert pair in found.fields["properties"]
    assert "\x02PUSH_REPLY_TIME\x01" in found.fields["properties"]
    assert found.fields["bornHost"].count(":") == 1


def test_a_reply_waits_for_a_requester_that_connects_later(
    store: StoreProcess, broker: BrokerProcess, requester: RemotingClient, replier: Producer,
    topic: str,
) -> None:  # fmt: skip
    """It may have sent its request before its first heart-beat."""
    beat(requester, "another")
    ask(requester, topic, f"late-{topic}")
    replier.reply(consumed(store, topic), "answer")
    replier.reply(consumed(store, topic), "again")
    with RemotingClient(broker.address) as late:
        beat(late, f"late-{topic}")
        assert [pushed(late).body for _ in range(2)] == [b"answer", b"again"]
    requester.listen(0.1)
    assert requester.requests == []


def test_a_reply_from_the_network_reaches_a_local_requester(
    store: StoreProcess, client: RemotingClient, topic: str
) -> None:
    eventually(lambda: client.ask(105, {"topic": REPLIES}).code == 0, "the topic of replies")
    with RequestProducer(store.path) as asker:
        future = asker.request_async(topic, "question", timeout=LONG_S)
        request = consumed(store, topic)
        assert request.properties["CLUSTER"] + "_REPLY_TOPIC" == REPLIES
        names = ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL")
        pairs = {"MSG_TYPE": "reply", **{name: request.properties[name] for name in names}}
        fields = {**send_fields(REPLIES), "properties": text(pairs)}
        answer = client.ask(SEND_REPLY, fields, b"answer")
        assert (answer.code, answer.remark) == (0, None)
        reply = future.result()
    assert reply.body == b"answer"
    assert reply.topic == REPLIES_TOPIC
    assert answer.fields["msgId"] == reply.offset_message_id
    assert client.ask(11, pull_fields(REPLIES, 0)).code != 0, "it is stored once"


def test_clients_on_the_network_may_not_write_there(client: RemotingClient, topic: str) -> None:
    answer = client.ask(SEND, send_fields(REPLIES_TOPIC), b"x")
    assert (answer.code, "forbidden" in str(answer.remark)) == (16, True)


def test_a_broker_that_is_killed_pushes_what_came_meanwhile(
    store: StoreProcess, replier: Producer, topic: str
) -> None:
    with BrokerProcess(store.path, listen="127.0.0.1:0") as broker:
        with RemotingClient(broker.address) as requester:
            beat(requester, f"id-{topic}")
            ask(requester, topic, f"id-{topic}", ttl_ms=60_000)
        broker.kill()
        replier.reply(consumed(store, topic), "answer")
        broker.start()
        with RemotingClient(broker.address) as requester:
            beat(requester, f"id-{topic}")
            assert pushed(requester).body == b"answer"
