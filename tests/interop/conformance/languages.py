"""Requests as clients in other languages write them: C++, Node and Go."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import (
    Answer,
    Code,
    batch,
    bodies,
    max_offset,
    now_ms,
    pull,
    pull_fields,
    send_fields,
    short,
)
from support.harness import eventually

if TYPE_CHECKING:
    from interop.servers import Servers

#: Fields that C++ and Node write as numbers.
NUMBERS = {
    "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "suspendTimeoutMillis",
    "subVersion", "d", "e", "f", "g", "h", "j", "timestamp",
}  # fmt: skip


def frame(
    code: int, fields: dict[str, object], body: bytes = b"", *, language: object = "CPP",
    version: int = 333, opaque: int = 1,
) -> bytes:  # fmt: skip
    """A frame as C++ writes it: numbers are numbers, and a newline ends the header."""
    values = {
        name: value if name in NUMBERS else str(value)
        for name, value in fields.items()
        if value is not None
    }
    data = {
        "code": code, "language": language, "version": version, "opaque": opaque, "flag": 0,
        "remark": "", "extFields": values,
    }  # fmt: skip
    header = json.dumps(data).encode() + b"\n"
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


@point(18, 61)
def numbers_in_a_header_are_read(servers: Servers) -> None:
    topic = "languages-cpp"
    servers.open.create_topic(topic)
    fields = {**short(send_fields(topic)), "g": now_ms(), "Signature": "", "AccessKey": ""}
    two = batch([(b"b", {"K": "1"}), (b"c", {"K": "2"})])
    with servers.open.connect() as client:
        client.send_bytes(frame(Code.SEND_MESSAGE_V2, fields, b"a"))
        assert client.answer(1).fields["queueOffset"] == "0"
        client.send_bytes(frame(Code.SEND_MESSAGE_V2, {**fields, "m": "true"}, two, opaque=2))
        answer = client.answer(2)
        assert (answer.fields["queueOffset"], len(answer.fields["msgId"])) == ("1", 65)
        eventually(lambda: max_offset(client, topic) == 3, "all are dispatched")
        asked = pull_fields("cpp", topic, 0, expressionType=None)
        client.send_bytes(frame(Code.PULL_MESSAGE, asked, opaque=3))
        assert bodies(client.answer(3)) == [b"a", b"b", b"c"]
        client.send_bytes(frame(Code.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}, opaque=4))
        answer = client.answer(4)
        assert answer.fields == {"offset": "3"}, "C++ reads no numbers in answers"


@point(18, 61)
def languages_are_names_or_numbers(servers: Servers) -> None:
    place = {"topic": "SELF_TEST_TOPIC", "queueId": 0}
    with servers.open.connect() as client:
        for opaque, (language, version) in enumerate(
            (("GO", 317), ("CPP", 333), ("PYTHON", 373), ("JAVA", 121), ("NODE_JS", 479)), 1
        ):
            data = frame(
                Code.GET_MAX_OFFSET, place, language=language, version=version, opaque=opaque
            )
            client.send_bytes(data)
            assert client.answer(opaque).code == Answer.SUCCESS, language


@point(61)
def a_pull_as_go_writes_it(servers: Servers) -> None:
    """Go sends the subscription's text although no bit says so, and no version of it."""
    topic = "languages-go"
    servers.open.create_topic(topic)
    with servers.open.connect() as client:
        client.version = 317
        assert client.ask(Code.SEND_MESSAGE, send_fields(topic), b"x").code == Answer.SUCCESS
        eventually(lambda: max_offset(client, topic) == 1, "it is dispatched")
        answer = pull(client, "go", topic, 0, subscription="", subVersion=0, bname="broker-a")
        assert bodies(answer) == [b"x"]
