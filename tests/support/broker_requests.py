"""One good request of each code that a broker serves, and values that spoil its fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from silomq.broker.wire.command import WORD, Command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TOPIC = "orders"
GROUP = "readers"
#: Names and texts that are none, and numbers that do not fit.
VALUES = (
    *("", " ", "x", "a\nb", "a\x00b", "a\x1b[31mb", "../../etc/passwd", "/", ".", "%DLQ%"),
    *("\u202egnp", "gr\u00fcn", "\x01\x02", "\ufffd", "{}", "[]", "true", "null", "NaN"),
    *("%RETRY%", "1e9", "0x10", "-1", "-2147483649"),
    *( "2147483647", "2147483648", "4294967296", "1_0", "\u0663", "+1", " 1 "),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("1" * 40, "1" * 5000, "-" + "9" * 5000, "x" * 300, "x" * 70_000, "\u00e9" * 40_000),
)  # fmt: skip
#: The same as JSON that is no text.
RAW = (
    "null",
    "true",
    "1.5",
    "1e400",
    "[1]",
    '{"a":1}',
    "-0",
    "12345678901234567890123",
    '"\\u0000"',
)
_BAD_JSON: tuple[object, ...] = (
    *(None, [], {}, -1, 2**31, 2**63, 2**70, True, "", "\n", "../x", "x" * 2000, "9" * 5000),
)
BODIES = (
    *(b"", b"{", b"null", b"[]", b"1", b'"x"', b"\xff\xfe", b'{"":1}', b"{}", bytes(100)),
    *(b"[" * 10_000, b'{"a":' * 10_000),
    b'{"clientID":1}',
    b'{"clientID":null,"consumerDataSet":null,"producerDataSet":null}',
)  # fmt: skip


class Asked(NamedTuple):
    """A request: its fields, and its body."""

    fields: Mapping[str, object]
    body: bytes = b""


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def heart_beat(client_id: str = "c1", group: str = GROUP, **consumer: object) -> bytes:
    """A heart-beat of a consumer of TOPIC, and of a producer."""
    subscription = {"topic": TOPIC, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    data = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "subscriptionDataSet": [subscription], **consumer,
    }  # fmt: skip
    producers = [{"groupName": "senders"}]
    return _json({"clientID": client_id, "consumerDataSet": [data], "producerDataSet": producers})


def send_fields(topic: str = TOPIC, key: str = "K", **more: object) -> dict[str, object]:
    """The fields of SEND_MESSAGE."""
    return {
        "producerGroup": "senders", "topic": topic, "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 1, "queueId": 0, "sysFlag": 0, "bornTimestamp": 1, "flag": 0,
        "properties": f"UNIQ_KEY\x01{key}\x02", "reconsumeTimes": 0, "unitMode": "false",
        "maxReconsumeTimes": 3, **more,
    }  # fmt: skip


def pull_fields(topic: str = TOPIC, offset: int = 0, **more: object) -> dict[str, object]:
    """The fields of a pull of everything, which brings its subscription and does not wait."""
    return {
        "consumerGroup": GROUP, "topic": topic, "queueId": 0, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0,
        "subscription": "*", "subVersion": 0, "expressionType": "TAG", **more,
    }  # fmt: skip


_SHORT = dict(
    zip(send_fields(), ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"), strict=True)
)
_SHORT_SEND = {_SHORT[name]: value for name, value in send_fields().items()}
_REPLY = "UNIQ_KEY\x01R\x02REPLY_TO_CLIENT\x01nobody\x02CORRELATION_ID\x01c\x02"
_QUEUE = {"topic": TOPIC, "queueId": 0}
_OF_GROUP = {**_QUEUE, "consumerGroup": GROUP}
_LOCK = _json(
    {"clientId": "c1", "consumerGroup": GROUP, "mqSet": [{**_QUEUE, "brokerName": "broker-a"}]}
)
_OF_CLIENT = {"consumerGroup": GROUP, "clientId": "c1"}

#: A receipt: the first offset, time, invisible time, revive queue, mark, broker, queue, offset.
_RECEIPT = {"extraInfo": "0 1 60000 0 0 broker-a 0 0", "offset": 0}
_ACKS = {
    "brokerName": "broker-a",
    "acks": [
        {"b": "AQ==", "c": GROUP, "it": 1, "pt": 1, "q": 0, "r": "0", "rq": 0, "so": 0, "t": TOPIC}
    ],
}
_ASSIGNED = {
    "clientId": "c1", "consumerGroup": GROUP, "messageModel": "CLUSTERING", "strategyName": "AVG",
    "topic": TOPIC,
}  # fmt: skip


def pop_fields(topic: str = TOPIC, group: str = GROUP, **more: object) -> dict[str, object]:
    """The fields of a pop of up to 32 messages of any queue, which does not wait."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32,
        "invisibleTime": 60_000, "pollTime": 0, "bornTime": 0, "initMode": 0, "expType": "TAG",
        "exp": "*", "order": "false", **more,
    }  # fmt: skip


#: Request code -> a good request. Those that end something come last.
GOOD: dict[int, Asked] = {
    10: Asked(send_fields(), b"x"),
    310: Asked(_SHORT_SEND, b"x"),
    320: Asked(_SHORT_SEND, b"\0\0\0\x17" + bytes(12) + b"\0\0\0\1x\0\0"),
    324: Asked(send_fields("DefaultCluster_REPLY_TOPIC", properties=_REPLY), b"x"),
    325: Asked({**_SHORT_SEND, "b": "DefaultCluster_REPLY_TOPIC", "i": _REPLY}, b"x"),
    11: Asked(pull_fields()),
    361: Asked(pull_fields()),
    12: Asked(
        {"topic": TOPIC, "key": "K", "maxNum": 5, "beginTimestamp": 0, "endTimestamp": 2**62}
    ),
    14: Asked(_OF_GROUP),
    15: Asked({**_OF_GROUP, "commitOffset": 1}),
    17: Asked(
        {"topic": TOPIC, "readQueueNums": 2, "writeQueueNums": 2, "perm": 6, "order": "false"}
    ),
    29: Asked({**_QUEUE, "timestamp": 1, "boundaryType": "lower"}),
    30: Asked(_QUEUE),
    31: Asked(_QUEUE),
    32: Asked(_QUEUE),
    33: Asked({"offset": 0}),
    34: Asked({}, heart_beat()),
    35: Asked({"clientID": "c1", "producerGroup": "senders", "consumerGroup": "nobody"}),
    36: Asked({"offset": 0, "group": GROUP, "delayLevel": 3, "maxReconsumeTimes": 3}),
    37: Asked(
        {
            "producerGroup": "senders", "tranStateTableOffset": 0, "commitLogOffset": 0,
            "commitOrRollback": 8, "fromTransactionCheck": "false", "msgId": "K",
        }
    ),
    38: Asked({"consumerGroup": GROUP}),
    41: Asked({}, _LOCK),
    42: Asked({}, _LOCK),
    46: Asked({}, _json({"clientId": "c", "group": GROUP, "subscriptionData": {"topic": TOPIC}})),
    105: Asked({"topic": TOPIC, "acceptStandardJsonOnly": "false"}),
    106: Asked({}),
    200: Asked({}, _json({"groupName": GROUP, "retryQueueNums": 1, "retryMaxTimes": 3})),
    206: Asked({}),
    224: Asked({"cluster": "DefaultCluster"}),
    304: Asked({}),
    311: Asked({}),
    101: Asked({"namespace": "n", "key": "k"}),
    307: Asked({**_OF_CLIENT, "jstackEnable": "false"}),
    309: Asked({**_OF_CLIENT, "msgId": "7F00000100002A9F0000000000000000"}),
    323: Asked({"topic": TOPIC, "msgId": "7F00000100002A9F0000000000000000"}),
    400: Asked({}, _json(_ASSIGNED)),
    401: Asked(
        {}, _json({"consumerGroup": GROUP, "topic": TOPIC, "mode": "POP", "popShareQueueNum": 0})
    ),
    402: Asked({}),
    200050: Asked(pop_fields()),
    200051: Asked({**_OF_GROUP, **_RECEIPT}),
    200052: Asked({**_OF_GROUP, "maxMsgNums": 3}),
    200053: Asked({**_OF_GROUP, **_RECEIPT, "invisibleTime": 1000}),
    200054: Asked({**_OF_GROUP, "pollTime": 0, "bornTime": 0, "order": "false"}),
    200055: Asked(_OF_GROUP),
    200151: Asked({}, _json(_ACKS)),
    370: Asked({"topic": TOPIC, "recallHandle": "djEgYiB0IDEgaw=="}),
    18: Asked(
        {},
        _json({"topicConfigList": [{"topicName": TOPIC, "attributes": {"+reserve.time": "5"}}]}),
    ),
    21: Asked({"topicSeq": 0, "maxTopicNum": 5}),
    25: Asked({}, b"shortPollingTimeMills=900\n"),
    26: Asked({}),
    28: Asked({}),
    43: Asked({}),
    45: Asked({}),
    201: Asked({"groupSeq": 0, "maxGroupNum": 5}),
    202: Asked({"topic": TOPIC}),
    203: Asked({"consumerGroup": GROUP}),
    204: Asked({"producerGroup": "senders"}),
    205: Asked({"brokerName": "another"}),
    208: Asked({"consumerGroup": GROUP, "topic": TOPIC, "topicList": f"{TOPIC};other"}),
    216: Asked({"topic": "nothing", "clusterName": "DefaultCluster"}),
    223: Asked({"topic": TOPIC, "group": "nobody", "clientAddr": ""}),
    225: Asked({}, _json({"groupConfigList": [{"groupName": GROUP, "retryMaxTimes": 3}]})),
    300: Asked({"topic": TOPIC}),
    303: Asked({"topic": TOPIC, "group": GROUP}),
    305: Asked({}),
    306: Asked({}),
    308: Asked({"filterGroups": "a,b", "compareGroup": GROUP, "topic": TOPIC}),
    314: Asked({"srcGroup": GROUP, "destGroup": "cloned", "topic": TOPIC, "offline": "false"}),
    315: Asked({"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}),
    316: Asked({}),
    317: Asked({"isOrder": "false"}),
    321: Asked({**_OF_GROUP, "index": 0, "count": 3}),
    327: Asked({"brokerName": "another"}),
    328: Asked({}),
    343: Asked({"group": GROUP}),
    345: Asked({"group": GROUP, "topic": TOPIC}),
    351: Asked({"topic": TOPIC, "lo": "true"}),
    352: Asked({"group": GROUP}),
    353: Asked({"group": GROUP, "topic": "other", "readable": "true"}),
    60: Asked({}),
    907: Asked({}),
    329: Asked({}),
    50: Asked(
        {"accessKey": "some-service", "secretKey": "a secret of 1", "admin": "false",
         "whiteRemoteAddress": "10.0.0.*", "defaultTopicPerm": "DENY", "defaultGroupPerm": "SUB",
         "topicPerms": "orders=PUB|SUB,other=DENY", "groupPerms": "readers=SUB"}
    ),
    51: Asked({"accessKey": "some-service"}),
    52: Asked({}),
    53: Asked({"globalWhiteAddrs": "10.0.0.1,10.0.1.*"}),
    222: Asked({"topic": TOPIC, "group": GROUP, "timestamp": -1, "queueId": 0, "offset": 0}),
    207: Asked({"groupName": "nothing", "cleanOffset": "true"}),
    215: Asked({"topic": "nothing"}),
}  # fmt: skip


def spoiled(code: int) -> Iterator[Asked]:
    """A request with each of its fields missing or bad in turn, then its body."""
    good = GOOD[code]
    for name in good.fields:
        yield Asked({key: value for key, value in good.fields.items() if key != name}, good.body)
        for value in VALUES:
            if name == "pollTime" and (value == "1e9" or (value.isdecimal() and len(value) > 5)):
                continue  # a good value: the answer comes in a minute
            yield Asked({**good.fields, name: value}, good.body)
    for body in BODIES:
        yield Asked(good.fields, body)
    if good.body[:1] == b"{":
        for spoilt in _spoiled_json(json.loads(good.body)):
            yield Asked(good.fields, spoilt)


def _spoiled_json(found: Any) -> Iterator[bytes]:
    """The JSON with each of its values, at any depth, replaced by bad ones."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in list(items):
            places.append((value, key))
            if isinstance(one, dict | list):
                walk(one)

    walk(found)
    for holder, key in places:
        kept = holder[key]
        for bad in _BAD_JSON:
            holder[key] = bad
            yield _json(found)
        holder[key] = kept


def raw_frame(code: int, opaque: int, fields: str, body: bytes = b"") -> bytes:
    """A frame whose extFields are this JSON."""
    header = f'{{"code":{code},"opaque":{opaque},"extFields":{fields}}}'.encode()
    return WORD.pack(4 + len(header) + len(body)) + WORD.pack(len(header)) + header + body


def raw_spoiled(code: int) -> Iterator[str]:
    """The extFields of a request, with one that is no text in each."""
    fields = Command(code, {name: str(value) for name, value in GOOD[code].fields.items()}).fields
    for name in fields:
        for value in RAW:
            pairs = {**{key: json.dumps(text) for key, text in fields.items()}, name: value}
            yield "{" + ",".join(f"{json.dumps(key)}:{text}" for key, text in pairs.items()) + "}"
