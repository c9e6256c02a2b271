"""Look-ups of offsets, by time, and of messages by their keys and ids."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import (
    Answer,
    Code,
    bodies,
    max_offset,
    now_ms,
    offset_by,
    pull,
    records,
    send,
)
from support.harness import eventually

from silomq.store.record.ids import decode_offset_message_id

if TYPE_CHECKING:
    from interop.servers import Server, Servers
    from support.remoting_client import RemotingClient

    from silomq.broker.wire.command import Command

BY_TIME = Code.SEARCH_OFFSET_BY_TIMESTAMP
HOUR_MS = 3_600_000


def spread(server: Server, client: RemotingClient, topic: str, count: int) -> list[int]:
    """A topic with messages at different times; their store times."""
    server.create_topic(topic)
    for i in range(count):
        properties = {"UNIQ_KEY": f"{topic.upper():0>30}{i:02X}", "KEYS": f"k{i} every"}
        answer = send(client, topic, b"m%d" % i, properties=properties)
        assert answer.code == Answer.SUCCESS
        time.sleep(0.02)
    eventually(lambda: max_offset(client, topic) == count, "all are dispatched")
    return [record.store_timestamp for record in records(pull(client, "looking", topic, 0))]


@point(49)
def offsets_are_found(servers: Servers) -> None:
    topic = "lookups-offsets"
    with servers.open.connect() as client:
        times = spread(servers.open, client, topic, 5)
        assert offset_by(client, Code.GET_MAX_OFFSET, topic) == 5
        assert offset_by(client, Code.GET_MIN_OFFSET, topic) == 0
        for i, stored_ms in enumerate(times):
            assert offset_by(client, BY_TIME, topic, timestamp=stored_ms) == i
            assert offset_by(client, BY_TIME, topic, timestamp=stored_ms - 1) == i
        assert offset_by(client, BY_TIME, topic, timestamp=0) == 0
        assert offset_by(client, BY_TIME, topic, timestamp=times[-1] + HOUR_MS) == 5
        answer = client.ask(Code.GET_EARLIEST_MSG_STORETIME, {"topic": topic, "queueId": 0})
        assert (answer.code, answer.fields["timestamp"]) == (Answer.SUCCESS, str(times[0]))


@point(49)
def a_queue_that_is_not_there_has_no_offsets(servers: Servers) -> None:
    servers.open.create_topic("lookups-empty")
    with servers.open.connect() as client:
        for topic, queue in (("lookups-empty", 0), ("lookups-empty", 9), ("lookups-none", 0)):
            assert offset_by(client, Code.GET_MAX_OFFSET, topic, queue) == 0
            assert offset_by(client, Code.GET_MIN_OFFSET, topic, queue) in {0, -1}
        fields = {"topic": "lookups-empty", "queueId": 0}
        answer = client.ask(Code.GET_EARLIEST_MSG_STORETIME, fields)
        assert (answer.code, answer.fields["timestamp"]) == (Answer.SUCCESS, "-1")


def by_key(client: RemotingClient, topic: str, key: str, **more: object) -> Command:
    """The answer to a look-up of a key in the last hour."""
    fields = {
        "topic": topic, "key": key, "maxNum": 32, "beginTimestamp": now_ms() - HOUR_MS,
        "endTimestamp": now_ms() + HOUR_MS, **more,
    }  # fmt: skip
    return client.ask(Code.QUERY_MESSAGE, fields)


@point(50)
def messages_are_found_by_key(servers: Servers) -> None:
    topic = "lookups-keys"
    with servers.open.connect() as client:
        spread(servers.open, client, topic, 5)
        eventually(lambda: len(records(by_key(client, topic, "every"))) == 5, "the index", 10)
        assert bodies(by_key(client, topic, "k3")) == [b"m3"]
        assert sorted(bodies(by_key(client, topic, "every"))) == [b"m%d" % i for i in range(5)]
        assert len(records(by_key(client, topic, "every", maxNum=2))) == 2
        unique = f"{topic.upper():0>30}04"
        answer = by_key(client, topic, unique, _UNIQUE_KEY_QUERY="true", endTimestamp=2**63 - 1)
        assert bodies(answer) == [b"m4"]
        assert int(answer.fields["indexLastUpdateTimestamp"]) > 0
        assert "indexLastUpdatePhyoffset" in answer.fields
        assert by_key(client, topic, "nobody").code == Answer.QUERY_NOT_FOUND
        past = {"beginTimestamp": 0, "endTimestamp": 1}
        assert by_key(client, topic, "every", **past).code == Answer.QUERY_NOT_FOUND


@point(50)
def a_message_is_found_by_its_offset(servers: Servers) -> None:
    servers.open.create_topic("lookups-ids")
    with servers.open.connect() as client:
        answer = send(client, "lookups-ids", b"found")
        _, offset = decode_offset_message_id(answer.fields["msgId"])
        found = client.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": offset, "topic": "lookups-ids"})
        (record,) = records(found)
        assert (found.code, record.body, record.topic) == (0, b"found", "lookups-ids")
        for wrong in (2**40, -1):
            answer = client.ask(Code.VIEW_MESSAGE_BY_ID, {"offset": wrong, "topic": "lookups-ids"})
            assert answer.code == Answer.SYSTEM_ERROR
