"""Commands in both forms: RocketMQ's own bytes, round trips, and bytes that are no command."""

from __future__ import annotations

import contextlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.broker.wire.codes import LANGUAGES
from silomq.broker.wire.command import ANSWER, ONE_WAY, BadFrame, Command, Serialization, decode

ROUTE = {"topic": "TopicTest"}
BINARY_REQUEST = """
    0000002d 01000029 0069 00 0191 00000000 00000000 00000000 00000014
    0005 746f706963 00000009 546f70696354657374
"""
#: From the rules of RocketMQ's source: (the frame, what it says).
GOLDEN = {
    "binary request": (
        BINARY_REQUEST,
        Command(105, ROUTE, version=401, serialization=Serialization.ROCKETMQ),
    ),
    "binary answer": (
        "0000001b 01000017 0011 00 01df 00000005 00000001 00000002 6e6f 00000000",
        Command(17, opaque=5, flag=ANSWER, remark="no", serialization=Serialization.ROCKETMQ),
    ),
}


def framed(header: bytes, body: bytes = b"", form: int = 0) -> bytes:
    """A frame without its first word."""
    return struct.pack(">I", form << 24 | len(header)) + header + body


@pytest.mark.parametrize("name", GOLDEN)
def test_rocketmqs_binary_bytes(name: str) -> None:
    text, command = GOLDEN[name]
    frame = bytes.fromhex(text)
    assert command.encode() == frame
    assert decode(frame[4:]) == command


def test_rocketmqs_json() -> None:
    header = (
        b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":0,'
        b'"serializeTypeCurrentRPC":"JSON","version":401}'
    )
    assert len(header) == 0x83
    assert decode(framed(header)) == Command(105, ROUTE, version=401)


def test_an_answer_says_its_number_also_if_it_is_0() -> None:
    """A Java peer that finds no opaque takes a number of its own."""
    header = Command(105, opaque=0).answer().encode()[8:]
    assert header == (
        b'{"code":0,"flag":1,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON",'
        b'"version":479}'
    )


def test_json_is_written_compactly_with_text_in_all_fields() -> None:
    frame = Command(0, {"offset": "5"}, b"body", 7, ANSWER, "\u00e4").encode()
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    header = frame[8:-4].decode()
    assert " " not in header
    assert json.loads(header) == {
        "code": 0, "extFields": {"offset": "5"}, "flag": 1, "language": "JAVA", "opaque": 7,
        "remark": "\u00e4", "serializeTypeCurrentRPC": "JSON", "version": 479,
    }  # fmt: skip


def test_what_clients_in_cpp_and_node_write() -> None:
    header = (
        b'{"code":310,"language":"CPP","version":333,"opaque":1,"flag":0,"extFields":'
        b'{"e":0,"m":true,"f":-3,"x":1.50,"gone":null,"n":"","l":"\\u00e4"}}\n'
    )
    command = decode(framed(header, b"body"))
    assert command.fields == {"e": "0", "m": "true", "f": "-3", "x": "1.50", "n": "", "l": "\u00e4"}
    assert (command.language, command.body) == ("CPP", b"body")


@pytest.mark.parametrize(("said", "read"), [(b"3", "PYTHON"), (b"99", "OTHER"), (b'"X"', "X")])
def test_languages_are_names_or_numbers(said: bytes, read: str) -> None:
    assert decode(framed(b'{"code":1,"language":%b}' % said)).language == read


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
I32 = st.integers(-(2**31), 2**31 - 1)


@given(
    st.builds(
        Command,
        code=st.integers(-(2**15), 2**15 - 1),
        fields=st.dictionaries(TEXT.filter(bool), TEXT.filter(bool), max_size=5),
        body=st.binary(max_size=50),
        opaque=I32,
        flag=I32,
        remark=st.none() | TEXT.filter(bool),
        language=st.sampled_from(LANGUAGES),
        version=st.integers(-(2**15), 2**15 - 1),
        serialization=st.sampled_from(Serialization),
    )
)
def test_a_command_comes_back_from_both_forms(command: Command) -> None:
    frame = command.encode()
    assert len(frame) == 4 + struct.unpack_from(">i", frame)[0]
    assert decode(frame[4:]) == command


def test_an_answer_has_the_requests_number_and_form() -> None:
    for form in Serialization:
        request = Command(105, ROUTE, opaque=-7, version=399, serialization=form)
        answer = request.answer(17, remark="none")
        assert (answer.code, answer.opaque, answer.flag) == (17, -7, ANSWER)
        assert (answer.serialization, answer.version) == (form, 479)
        assert request.wants_answer
        assert not answer.wants_answer
    assert not Command(105, flag=ONE_WAY).wants_answer


BAD_HEADERS = {
    "no JSON": (b"{", 0),
    "an array": (b"[]", 0),
    "no code": (b'{"opaque":1}', 0),
    "a code as text": (b'{"code":"x"}', 0),
    "a large number": (b'{"code":1,"opaque":2147483648}', 0),
    "deep": (b'{"code":1,"extFields":{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}}", 0),
    "no object of fields": (b'{"code":1,"extFields":[]}', 0),
    "bad UTF-8": (b'{"code":1,"remark":"\xff"}', 0),
    "another form": (b'{"code":1}', 2),
    "short": (bytes(12), 1),
    "no remark": (bytes(13) + struct.pack(">i", 5), 1),
    "a negative length": (bytes(13) + struct.pack(">ii", -1, 0), 1),
    "fields that end early": (bytes(13) + struct.pack(">iih", 0, 2, 5), 1),
    "a language": (b"\0\1\x0e" + bytes(18), 1),
    "text that is no UTF-8": (bytes(13) + struct.pack(">i", 1) + b"\xff" + bytes(4), 1),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_a_bad_header_is_told(name: str) -> None:
    header, form = BAD_HEADERS[name]
    with pytest.raises(BadFrame):
        decode(framed(header, form=form))


@given(st.binary(min_size=4, max_size=200), st.sampled_from((0, 1)))
def test_any_bytes_are_a_command_or_a_bad_frame(data: bytes, form: int) -> None:
    for frame in (data, framed(data, form=form)):
        with contextlib.suppress(BadFrame):
            decode(frame)


@given(st.data())
def test_a_damaged_command_is_a_command_or_a_bad_frame(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(Serialization))
    frame = bytearray(Command(105, ROUTE, b"body", 1, remark="x", serialization=form).encode()[4:])
    for at in data.draw(st.lists(st.integers(0, len(frame) - 1), min_size=1, max_size=4)):
        frame[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadFrame):
        decode(bytes(frame))
