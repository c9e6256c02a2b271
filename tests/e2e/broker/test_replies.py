"""Replies: pushed to the client that has asked, and stored."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest
from support.broker_requests import pull_fields, send_fields
from support.brokers import BrokerProcess
from support.harness import eventually
from support.remoting_client import RemotingClient

from silomq.broker.processors.send_headers import _SHORT as SHORT
from silomq.broker.wire.command import Serialization
from silomq.client.consuming.message_view import MessageView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.harness import StoreProcess

    from silomq.broker.wire.command import Command

REPLIES = "DefaultCluster_REPLY_TOPIC"
LONG, SHORT_CODE, PUSH = 324, 325, 326
_numbers = itertools.count()


def reply_fields(client_id: str | None, code: int = LONG, **more: object) -> dict[str, object]:
    key = f"R{next(_numbers)}"
    pairs = {"UNIQ_KEY": key, "MSG_TYPE": "reply", "CORRELATION_ID": f"c-{key}", "TTL": "3000"}
    if client_id is not None:
        pairs["REPLY_TO_CLIENT"] = client_id
    properties = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    given = {**more, "properties": properties, "producerGroup": "repliers"}
    fields = {**send_fields(REPLIES), **given}
    if code == LONG:
        return fields
    return {SHORT[_snake(name)]: value for name, value in fields.items() if _snake(name) in SHORT}


def _snake(name: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in name)


def beat(client: RemotingClient, client_id: str, *groups: str) -> None:
    producers = [{"groupName": name} for name in groups]
    body = json.dumps({"clientID": client_id, "producerDataSet": producers}).encode()
    assert client.ask(34, body=body).code == 0


def take(client: RemotingClient, code: int = 0) -> Command:
    """The reply that is pushed, answered with this code."""
    pushed = client.request_of_server(PUSH)
    answer = pushed.answer(code)
    client.send_bytes(answer.encode())
    return pushed


def stored(client: RemotingClient) -> list[MessageView]:
    """All replies in the topic."""
    found: list[MessageView] = []
    while True:
        answer = client.ask(11, pull_fields(REPLIES, len(found)))
        if answer.code != 0:
            return found
        at = 0
        while at < len(answer.body):
            size = int.from_bytes(answer.body[at : at + 4])
            found.append(MessageView(answer.body[at : at + size], len(found)))
            at += size


def stored_as(client: RemotingClient, fields: dict[str, object]) -> MessageView:
    """The reply with these fields, as soon as it is in its queue: once."""
    properties = str(fields.get("properties") or fields["i"])
    key = properties.split("\x02", maxsplit=1)[0].removeprefix("UNIQ_KEY\x01")

    def found() -> list[MessageView]:
        return [one for one in stored(client) if one.message_id == key]

    eventually(found, "the reply is stored")
    (message,) = found()
    return message


@pytest.fixture
def requester(broker: BrokerProcess) -> Iterator[RemotingClient]:
    """A client "asks" with a producer."""
    with RemotingClient(broker.address) as connected:
        beat(connected, "asks", "askers")
        yield connected


def test_the_topic_of_replies_is_there_from_the_start(client: RemotingClient) -> None:
    eventually(lambda: client.ask(105, {"topic": REPLIES}).code == 0, "its route")
    (queues,) = json.loads(client.ask(105, {"topic": REPLIES}).body)["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (1, 1, 6)
    assert REPLIES in json.loads(client.ask(304).body)["topicList"]


@pytest.mark.parametrize("form", Serialization)
@pytest.mark.parametrize("code", [LONG, SHORT_CODE])
def test_a_reply_is_pushed_and_stored(
    client: RemotingClient, requester: RemotingClient, code: int, form: Serialization
) -> None:
    client.form = form
    fields = reply_fields("asks", code, flag=7, sysFlag=1)
    opaque = client.send(code, fields, b"the reply")
    pushed = take(requester)
    answer = client.answer(opaque)
    assert (answer.code, answer.remark) == (0, None)
    assert pushed.body == b"the reply"
    found = pushed.fields
    assert (found["producerGroup"], found["topic"], found["queueId"]) == ("repliers", REPLIES, "0")
    assert (found["flag"], found["sysFlag"], found["unitMode"]) == ("7", "1", "false")
    host, port = client.socket.getsockname()
    assert found["bornHost"] == f"{host}:{port}"
    assert int(found["storeTimestamp"]) > 0
    assert "defaultTopicQueueNums" in found
    given = str(fields["properties" if code == LONG else "i"])
    assert found["properties"].startswith(given)
    assert "\x02PUSH_REPLY_TIME\x01" in found["properties"]
    message = stored_as(client, fields)
    assert (message.raw_body, message.flag) == (b"the reply", 7)
    assert answer.fields["msgId"] == message.offset_message_id
    assert answer.fields["queueOffset"] == str(message.queue_offset)


@pytest.mark.parametrize(
    ("client_id", "why"),
    [
        ("nobody", "push reply message fail, channel of <nobody> not found."),
        (None, "reply message properties[REPLY_TO_CLIENT] is null"),
    ],
)
def test_a_reply_to_nobody_is_an_error_and_stored(
    client: RemotingClient, client_id: str | None, why: str
) -> None:
    fields = reply_fields(client_id)
    answer = client.ask(LONG, fields, b"x")
    assert (answer.code, answer.remark) == (1, why)
    assert answer.fields["TRACE_ON"] == "true"
    assert stored_as(client, fields).offset_message_id == answer.fields["msgId"]


def test_a_requester_that_refuses_its_reply(
    client: RemotingClient, requester: RemotingClient
) -> None:
    opaque = client.send(LONG, reply_fields("asks"), b"x")
    take(requester, 1)
    answer = client.answer(opaque)
    assert (answer.code, answer.remark) == (1, "push reply message to asksfail.")


def test_a_requester_that_goes_while_its_reply_is_pushed(
    client: RemotingClient, requester: RemotingClient
) -> None:
    fields = reply_fields("asks")
    opaque = client.send(LONG, fields, b"x")
    requester.request_of_server(PUSH)
    assert stored_as(client, fields).raw_body == b"x", "others are served meanwhile"
    assert opaque not in client.answers
    requester.close()
    answer = client.answer(opaque, 5.0)
    assert (answer.code, answer.remark) == (1, "push reply message to asksfail.")
    assert client.ask(LONG, reply_fields("asks"), b"x").remark == (
        "push reply message fail, channel of <asks> not found."
    )


def test_replies_that_wait_are_bounded(client: RemotingClient, requester: RemotingClient) -> None:
    """Some client takes replies and does not answer: it keeps a part of the broker's memory."""
    body = bytes(3 << 20)
    for _ in range(10):
        client.send(LONG, reply_fields("asks"), body)
        requester.request_of_server(PUSH)
    refused = client.ask(LONG, reply_fields("asks"), body)
    assert (refused.code, "try again" in str(refused.remark)) == (2, True)
    requester.close()
    eventually(lambda: client.ask(LONG, reply_fields("asks"), body).code == 1, "it is gone")


def test_the_last_heart_beat_of_a_client_counts(
    broker: BrokerProcess, client: RemotingClient, requester: RemotingClient
) -> None:
    with RemotingClient(broker.address) as second:
        beat(second, "asks", "askers")
        opaque = client.send(LONG, reply_fields("asks"), b"x")
        take(second)
        assert client.answer(opaque).code == 0
        assert second.ask(35, {"clientID": "asks", "producerGroup": "askers"}).code == 0
    assert client.ask(LONG, reply_fields("asks"), b"x").code == 1
    beat(requester, "asks", "askers")
    opaque = client.send(LONG, reply_fields("asks"), b"x")
    take(requester)
    assert client.answer(opaque).code == 0


@pytest.mark.parametrize(
    ("more", "code"), [({"topic": "none", "defaultTopic": "x"}, 17), ({"sysFlag": 4}, 13)]
)
def test_a_reply_that_cannot_be_stored_is_not_pushed(
    client: RemotingClient, requester: RemotingClient, more: dict[str, object], code: int
) -> None:
    fields = {**reply_fields("asks"), **more}
    answer = client.ask(LONG, fields, b"x")
    assert answer.code == code
    assert answer.fields["MSG_REGION"] == "DefaultRegion"
    requester.listen(0.1)
    assert requester.requests == []


def test_without_storing(store: StoreProcess) -> None:
    settings = ("storeReplyMessageEnable=false", "brokerClusterName=other")
    with (
        BrokerProcess(store.path, *settings, listen="127.0.0.1:0") as broker,
        RemotingClient(broker.address) as client,
        RemotingClient(broker.address) as requester,
    ):
        eventually(lambda: client.ask(105, {"topic": "other_REPLY_TOPIC"}).code == 0, "its route")
        beat(requester, "asks", "askers")
        opaque = client.send(LONG, {**reply_fields("asks"), "topic": "other_REPLY_TOPIC"}, b"x")
        take(requester)
        answer = client.answer(opaque)
        assert (answer.code, answer.fields["msgId"]) == (0, "0")
        bounds = client.ask(30, {"topic": "other_REPLY_TOPIC", "queueId": 0})
        assert bounds.fields["offset"] == "0"


def test_a_broker_that_is_killed_while_it_pushes(store: StoreProcess) -> None:
    """The reply is stored all the same, once. The replier has no answer, and may send it again."""
    name = "killed_REPLY_TOPIC"
    settings = ("brokerClusterName=killed",)
    with BrokerProcess(store.path, *settings, listen="127.0.0.1:0") as broker:
        with RemotingClient(broker.address) as client, RemotingClient(broker.address) as requester:
            eventually(lambda: client.ask(105, {"topic": name}).code == 0, "its route")
            beat(requester, "asks", "askers")
            client.send(LONG, {**reply_fields("asks"), "topic": name}, b"x")
            requester.request_of_server(PUSH)
            where = {"topic": name, "queueId": 0}
            eventually(lambda: client.ask(30, where).fields["offset"] == "1", "it is stored")
            broker.kill()
            assert client.is_closed_within(5.0)
        broker.start()
        with RemotingClient(broker.address) as client:
            assert client.ask(LONG, {**reply_fields("asks"), "topic": name}, b"x").code == 1
            eventually(lambda: client.ask(30, where).fields["offset"] == "2", "both are stored")
