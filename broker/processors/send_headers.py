"""The fields of SEND_MESSAGE in their two spellings, and the messages in the body of a batch."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import msgspec

from ..groups.heartbeats import BadBody
from ..wire.codes import RequestCode
from ..wire.command import Command
from ..wire.headers import BadHeader

_LONG: Final = {
    "producer_group": "producerGroup",
    "topic": "topic",
    "default_topic": "defaultTopic",
    "default_topic_queue_nums": "defaultTopicQueueNums",
    "queue_id": "queueId",
    "sys_flag": "sysFlag",
    "born_timestamp": "bornTimestamp",
    "flag": "flag",
    "properties": "properties",
    "reconsume_times": "reconsumeTimes",
    "max_reconsume_times": "maxReconsumeTimes",
    "batch": "batch",
}
#: Those that a request to send and a pushed reply have.
_PUSHED: Final = tuple(_LONG)[:10]
#: The short spelling, which saves bytes (SendMessageRequestHeaderV2).
_SHORT: Final = dict(zip(_LONG, "abcdefghijlm", strict=True))
_LONG_CODES: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE)
#: C++ writes 1 for true.
_TRUE: Final = frozenset(("true", "1"))
_MEMBER: Final = struct.Struct(">iiiii")
_I16: Final = struct.Struct(">h")


class SendHeader(msgspec.Struct):
    """The fields of a request to send. `properties` is the text of pairs. `max_reconsume_times` is
    None if the client did not say.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: int
    queue_id: int
    sys_flag: int
    born_timestamp: int
    flag: int
    properties: str
    reconsume_times: int
    max_reconsume_times: int | None
    batch: bool

    @classmethod
    def of(cls, request: Command) -> SendHeader:
        """The fields of a request. Raises BadHeader."""
        fields = request.fields
        names = _LONG if request.code in _LONG_CODES else _SHORT
        try:
            limit = fields.get(names["max_reconsume_times"])
            return cls(
                producer_group=fields.get(names["producer_group"], ""),
                topic=fields[names["topic"]],
                default_topic=fields.get(names["default_topic"], ""),
                default_topic_queue_nums=int(fields.get(names["default_topic_queue_nums"], "0")),
                queue_id=int(fields[names["queue_id"]]),
                sys_flag=int(fields.get(names["sys_flag"], "0")),
                born_timestamp=int(fields.get(names["born_timestamp"], "0")),
                flag=int(fields.get(names["flag"], "0")),
                properties=fields.get(names["properties"], ""),
                reconsume_times=int(fields.get(names["reconsume_times"], "0")),
                max_reconsume_times=None if limit is None else int(limit),
                batch=fields.get(names["batch"], "").lower() in _TRUE
                or request.code == RequestCode.SEND_BATCH_MESSAGE,
            )
        except KeyError as error:
            raise BadHeader(f"the request has no field {error.args[0]!a}") from error
        except ValueError as error:
            raise BadHeader(f"the request's fields: {error}") from error

    def pushed(self) -> dict[str, str]:
        """The fields that go along when the message is pushed to a client."""
        return {_LONG[name]: str(getattr(self, name)) for name in _PUSHED}


class Member(NamedTuple):
    """One message of a batch."""

    flag: int
    body: bytes
    properties: str


def members(body: bytes) -> list[Member]:
    """The messages in the body of a batch (MessageDecoder.decodeMessages). Raises BadBody."""
    found: list[Member] = []
    at = 0
    while at < len(body):
        try:
            total, _, _, flag, size = _MEMBER.unpack_from(body, at)
            text_at = at + _MEMBER.size + size + _I16.size
            if size < 0 or text_at > len(body):
                raise BadBody(f"message {len(found)} of the batch: a body of {size} bytes")
            (length,) = _I16.unpack_from(body, text_at - _I16.size)
            if length < 0 or text_at + length - at != total or at + total > len(body):
                raise BadBody(f"message {len(found)} of the batch says that it has {total} bytes")
            properties = body[text_at : text_at + length].decode()
        except (struct.error, UnicodeDecodeError) as error:
            raise BadBody(f"message {len(found)} of the batch: {error}") from error
        found.append(Member(flag, body[at + _MEMBER.size : text_at - _I16.size], properties))
        at += total
    if not found:
        raise BadBody("the batch has no message")
    return found
