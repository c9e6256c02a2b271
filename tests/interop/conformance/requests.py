"""Requests of RocketMQ's clients, field by field, and what their answers hold."""

from __future__ import annotations

import enum
import json
import struct
import time
from typing import TYPE_CHECKING

from silomq.store.record.format import decode_record
from silomq.store.record.javahash import java_string_hash
from silomq.store.record.properties import encode_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.remoting_client import RemotingClient

    from silomq.broker.wire.command import Command
    from silomq.store.record.format import Record


class Code(enum.IntEnum):
    """Requests of clients."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    CHECK_CLIENT_CONFIG = 46
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    LITE_PULL_MESSAGE = 361


class Answer(enum.IntEnum):
    """What came of a request."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    REQUEST_CODE_NOT_SUPPORTED = 3
    MESSAGE_ILLEGAL = 13
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29


#: Bits of a pull's sysFlag.
COMMIT = 1
SUSPEND = 2
SUBSCRIPTION = 4
LITE = 16
#: The short names of a send's fields in SEND_MESSAGE_V2.
_V2 = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d",
    "queueId": "e", "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i",
    "reconsumeTimes": "j", "unitMode": "k", "maxReconsumeTimes": "l", "batch": "m", "bname": "n",
}  # fmt: skip


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# -- sending


def send_fields(topic: str, queue: int = 0, **more: object) -> dict[str, object]:
    """The fields of SEND_MESSAGE."""
    properties = more.pop("properties", {"UNIQ_KEY": f"{now_ms():032X}"})
    assert isinstance(properties, dict)
    return {
        "producerGroup": "senders", "topic": topic, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4, "queueId": queue, "sysFlag": 0, "bornTimestamp": now_ms(),
        "flag": 0, "properties": encode_properties(properties).decode(), "reconsumeTimes": 0,
        "unitMode": "false", **more,
    }  # fmt: skip


def short(fields: Mapping[str, object]) -> dict[str, object]:
    """The same fields under the names of SEND_MESSAGE_V2."""
    return {_V2[name]: value for name, value in fields.items()}


def send(
    client: RemotingClient, topic: str, body: bytes, queue: int = 0, **more: object
) -> Command:
    """The answer to a message by SEND_MESSAGE_V2. `more` are fields under their long names."""
    return client.ask(Code.SEND_MESSAGE_V2, short(send_fields(topic, queue, **more)), body)


def batch(messages: Sequence[tuple[bytes, Mapping[str, str]]]) -> bytes:
    """The body of a batch: bodies and properties."""
    parts = []
    for body, properties in messages:
        data = encode_properties(properties)
        total = 22 + len(body) + len(data)
        parts.append(struct.pack(">iiiii", total, 0, 0, 0, len(body)) + body)
        parts.append(struct.pack(">h", len(data)) + data)
    return b"".join(parts)


# -- receiving


def pull_fields(group: str, topic: str, offset: int, **more: object) -> dict[str, object]:
    """The fields of a pull of everything, which brings its subscription and does not wait."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": 0, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": SUBSCRIPTION, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subscription": "*", "subVersion": 0, "expressionType": "TAG", **more,
    }  # fmt: skip


def pull(client: RemotingClient, group: str, topic: str, offset: int, **more: object) -> Command:
    """The answer to such a pull."""
    return client.ask(Code.PULL_MESSAGE, pull_fields(group, topic, offset, **more))


def hold(client: RemotingClient, topic: str, offset: int, wait_ms: int, **more: object) -> int:
    """Sends a pull that waits for a message; its opaque."""
    flag = SUBSCRIPTION | SUSPEND
    fields = pull_fields(
        "holders", topic, offset, sysFlag=flag, suspendTimeoutMillis=wait_ms, **more
    )
    return client.send(Code.PULL_MESSAGE, fields)


def records(answer: Command) -> list[Record]:
    """The messages in an answer."""
    found, at = [], 0
    while at < len(answer.body):
        record = decode_record(answer.body, at)
        found.append(record)
        at += record.total_size
    return found


def bodies(answer: Command) -> list[bytes]:
    return [record.body for record in records(answer)]


def offset_by(
    client: RemotingClient, code: Code, topic: str, queue: int = 0, **more: object
) -> int:
    """The offset that one of the requests for offsets answers."""
    answer = client.ask(code, {"topic": topic, "queueId": queue, **more})
    assert answer.code == Answer.SUCCESS, answer.remark
    return int(answer.fields["offset"])


def max_offset(client: RemotingClient, topic: str, queue: int = 0) -> int:
    return offset_by(client, Code.GET_MAX_OFFSET, topic, queue)


def committed(client: RemotingClient, group: str, topic: str, queue: int = 0) -> int | None:
    """The committed offset of a group; None if the server says that it has none."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue}
    answer = client.ask(Code.QUERY_CONSUMER_OFFSET, fields)
    if answer.code == Answer.QUERY_NOT_FOUND:
        return None
    assert answer.code == Answer.SUCCESS, answer.remark
    return int(answer.fields["offset"])


def commit(client: RemotingClient, group: str, topic: str, offset: int) -> int:
    """Commits an offset of queue 0; the code of the answer."""
    place = {"consumerGroup": group, "topic": topic, "queueId": 0}
    return client.ask(Code.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": offset}).code


# -- groups


def subscription(topic: str, text: str = "*", version: int = 1) -> dict[str, object]:
    """A subscription as a heart-beat has it."""
    tags = [] if text == "*" else [tag.strip() for tag in text.split("||")]
    return {
        "classFilterMode": False, "codeSet": [java_string_hash(tag) for tag in tags],
        "expressionType": "TAG", "subString": text, "subVersion": version, "tagsSet": tags,
        "topic": topic,
    }  # fmt: skip


def heart_beat_body(client_id: str, group: str, *topics: dict[str, object]) -> bytes:
    """A heart-beat of a consumer of these subscriptions, and of its retry topic."""
    consumer = {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "groupName": group, "messageModel": "CLUSTERING", "unitMode": False,
        "subscriptionDataSet": [*topics, subscription(f"%RETRY%{group}")],
    }  # fmt: skip
    data = {"clientID": client_id, "consumerDataSet": [consumer], "producerDataSet": []}
    return json.dumps(data, separators=(",", ":")).encode()


def beat(client: RemotingClient, client_id: str, group: str, *topics: dict[str, object]) -> None:
    """Sends a heart-beat, which must succeed."""
    answer = client.ask(Code.HEART_BEAT, body=heart_beat_body(client_id, group, *topics))
    assert answer.code == Answer.SUCCESS, answer.remark


def members(client: RemotingClient, group: str) -> list[str]:
    """The client ids of a group; none for a group that the server does not know."""
    answer = client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    if answer.code == Answer.SYSTEM_ERROR:
        return []
    assert answer.code == Answer.SUCCESS, answer.remark
    return sorted(json.loads(answer.body)["consumerIdList"])


def locked(
    client: RemotingClient, client_id: str, group: str, topic: str, *queues: int
) -> set[int]:
    """The queues of a topic that the client now has the lock of, after asking for `queues`."""
    answer = client.ask(Code.LOCK_BATCH_MQ, body=_queues(client_id, group, topic, queues))
    assert answer.code == Answer.SUCCESS, answer.remark
    return {queue["queueId"] for queue in json.loads(answer.body)["lockOKMQSet"]}


def unlock(client: RemotingClient, client_id: str, group: str, topic: str, *queues: int) -> None:
    answer = client.ask(Code.UNLOCK_BATCH_MQ, body=_queues(client_id, group, topic, queues))
    assert answer.code == Answer.SUCCESS, answer.remark


def _queues(client_id: str, group: str, topic: str, queues: Sequence[int]) -> bytes:
    places = [{"brokerName": "broker-a", "queueId": one, "topic": topic} for one in queues]
    data = {"clientId": client_id, "consumerGroup": group, "mqSet": places}
    return json.dumps(data, separators=(",", ":")).encode()
