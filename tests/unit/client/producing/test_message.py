"""Messages, their parts, and the choice of a queue."""

from __future__ import annotations

import copy
import pickle
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory_store import MemoryStore, connect

from silomq import IllegalArgument, IllegalMessage, IllegalType, Message, PutMessageStatus
from silomq.client.producing._message import Route
from silomq.client.producing._sender import Sender, session_of
from silomq.client.producing.message_properties import RESERVED, TIMERS
from silomq.store.record.format import decode_record
from silomq.store.record.javahash import java_string_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL


@pytest.fixture
def sender() -> Iterator[Sender]:
    found = connect(MemoryStore(queues=3))
    yield found
    session_of(found).close()


# -- messages


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b"x", b"x"),
        ("grün", "grün".encode()),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abc")[1:], b"bc"),
        ("", b""),
    ],
)
def test_a_body_is_kept_as_bytes(body: Any, wanted: bytes) -> None:
    message = Message(body)
    assert message.body == wanted
    assert type(message.body) is bytes


def test_what_is_not_said() -> None:
    message = Message(b"x")
    assert (message.tags, message.keys, message.properties) == (None, None, None)
    assert (message.flag, message.born_timestamp) == (0, -1)
    assert repr(message) == "Message(body=1 bytes, tags=None, keys=None)"


def test_a_message_does_not_change() -> None:
    message = Message(b"x")
    for name in ("body", "tags", "keys", "properties", "flag", "born_timestamp"):
        with pytest.raises(AttributeError):
            setattr(message, name, None)


@pytest.mark.parametrize("name", sorted(RESERVED | TIMERS))
def test_names_of_the_stores_own(name: str) -> None:
    with pytest.raises(IllegalMessage, match=f"property {name}") as error:
        Message(b"", properties={name: "x"})
    timer = PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL
    assert error.value.status == (timer if name in TIMERS else ILLEGAL)


@pytest.mark.parametrize("keys", [["a b"], [""], ["a", "b c"]], ids=repr)
def test_keys_that_would_be_others(keys: list[str]) -> None:
    with pytest.raises(IllegalMessage, match="a key is not empty and has no space"):
        Message(b"", keys=keys)


@pytest.mark.parametrize("arguments", [{"keys": [5]}, {"keys": 5}, {"flag": "x"}], ids=repr)
def test_wrong_types(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Message(b"", **arguments)


@pytest.mark.parametrize("flag", [-(2**31), -1, 2**31 - 1])
def test_a_flag_is_signed_and_has_32_bits(sender: Sender, flag: int) -> None:
    assert Message(b"", flag=flag).flag == flag
    for beyond in (-(2**31) - 1, 2**31, 10**30):
        with pytest.raises(IllegalArgument, match="flag"):
            Message(b"", flag=beyond)
        with pytest.raises(IllegalArgument, match="flag"):
            sender.send_oneway("t", b"", flag=beyond)


@pytest.mark.parametrize("separator", ["\x01", "\x02"])
@pytest.mark.parametrize("part", ["tags", "keys", "shard_key"])
def test_separators_are_refused(sender: Sender, part: str, separator: str) -> None:
    arguments: dict[str, Any] = {part: f"a{separator}b"}
    with pytest.raises(IllegalMessage, match=f"{part} 'a.*' holds a control character") as error:
        sender.send_oneway("t", b"", **arguments)
    assert error.value.status == ILLEGAL
    if part != "shard_key":
        with pytest.raises(IllegalMessage, match="holds a control character"):
            sender.send_batch_oneway("t", [Message(b"", **arguments)])
    assert session_of(sender).ring.head == 0


@pytest.mark.parametrize("item", [5, True, None, (b"x",), [1, 2]], ids=repr)
def test_a_batch_holds_bodies_and_messages(sender: Sender, item: Any) -> None:
    with pytest.raises(IllegalType, match="a message of the batch must be bytes-like or str"):
        sender.send_batch_oneway("t", [b"x", item])


@pytest.mark.parametrize("messages", ["text", b"bytes", 5, None], ids=repr)
def test_a_batch_is_no_text(sender: Sender, messages: Any) -> None:
    """The letters of a text would be messages of their own."""
    with pytest.raises(IllegalType, match="messages must be an iterable"):
        sender.send_batch_oneway("t", messages)


def test_a_batch_takes_what_send_takes() -> None:
    store = MemoryStore()
    sender = connect(store)
    bodies_given: list[Any] = ["grün", bytearray(b"x"), memoryview(b"abcd")[::2]]
    sender.send_batch_oneway("t", iter(bodies_given))
    (frame,) = store.frames()
    bodies, left = [], frame.records
    while left:
        record = decode_record(left)
        bodies.append(record.body)
        left = left[record.total_size :]
    assert bodies == ["grün".encode(), b"x", b"ac"]
    store.close()


def test_a_message_is_sent_alone_as_well() -> None:
    store = MemoryStore()
    sender = connect(store)
    message = Message("é", "tag", ["k1", "k2"], {"p": "v"}, -5, 77)
    sender.send_oneway("t", message)
    record = decode_record(store.frames()[0].records)
    assert (record.body, record.tags, record.flag) == ("é".encode(), "tag", -5)
    assert record.born_timestamp == 77
    assert (record.properties["KEYS"], record.properties["p"]) == ("k1 k2", "v")
    others: list[dict[str, Any]] = [
        {"tags": "x"}, {"keys": "x"}, {"properties": {}}, {"flag": 1},
    ]  # fmt: skip
    for more in others:
        with pytest.raises(IllegalArgument, match="are those of the Message"):
            sender.send_oneway("t", message, **more)
    store.close()


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_message_can_be_copied(again: Any) -> None:
    message = Message("é", "tag", ["k1", "k2"], {"p": "v"}, -5, 77)
    found = again(message)
    for name in ("body", "tags", "keys", "properties", "flag", "born_timestamp"):
        assert getattr(found, name) == getattr(message, name)
    assert again(Message(b"")).born_timestamp == -1


def test_an_empty_batch(sender: Sender) -> None:
    with pytest.raises(IllegalMessage, match="at least one message"):
        sender.send_batch_oneway("t", [])


# -- routes


def test_a_route() -> None:
    route = Route("t", (7, 9))
    assert (route.topic, route.slots) == ("t", (7, 9))


def chosen(store: MemoryStore) -> list[tuple[int, int]]:
    """Queue and slot of each frame."""
    return [(decode_record(f.records).queue_id, f.slot) for f in store.frames()]


@pytest.mark.parametrize("queues", [1, 2, 3, 7])
def test_queues_take_turns(queues: int) -> None:
    store = MemoryStore(queues=queues)
    sender = connect(store)
    for i in range(3 * queues):
        if i % 3:
            sender.send_oneway("t", b"")
        else:
            sender.send_batch_oneway("t", [b"", b""])
    found = chosen(store)
    first = found[0][0]
    assert found == [((first + i) % queues, 100 + (first + i) % queues) for i in range(3 * queues)]


def test_not_all_begin_with_the_same_queue() -> None:
    random.seed(1)
    firsts = set()
    for _ in range(100):
        store = MemoryStore()
        connect(store).send_oneway("t", b"")
        firsts.add(chosen(store)[0][0])
    assert firsts == {0, 1, 2, 3}


@given(
    key=st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=40),
    queues=st.integers(1, 40),
)
def test_a_shard_key_is_hashed_as_java_hashes(key: str, queues: int) -> None:
    check_shard(key, queues)


@pytest.mark.parametrize("queues", [1, 3, 4, 7])
@pytest.mark.parametrize("key", ["", "polygenelubricants", "\U0001f600", "grün"])
def test_shard_keys_at_the_edges(key: str, queues: int) -> None:
    """The second one's hash is -2^31, whose absolute value Java has not."""
    check_shard(key, queues)


def check_shard(key: str, queues: int) -> None:
    code = java_string_hash(key)
    queue = 0 if code == -(2**31) else abs(code) % queues
    store = MemoryStore(queues=queues)
    connect(store).send_oneway("t", b"", shard_key=key)
    assert chosen(store) == [(queue, 100 + queue)]
    store.close()


@pytest.mark.parametrize("queue", [-1, 3, 1 << 31])
def test_a_queue_that_is_not_there(sender: Sender, queue: int) -> None:
    with pytest.raises(IllegalMessage, match=f"queue {queue} of topic t: it has queues 0 to 2"):
        sender.send_oneway("t", b"", queue=queue)
