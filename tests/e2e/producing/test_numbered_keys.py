"""Unique keys that the caller numbers: as told, in results and in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.harness import StoreProcess

from silomq import Consumer, Producer
from silomq.client.producing._sender import session_of

if TYPE_CHECKING:
    pass

PREFIX = "0123456789ABCDEF0123"


def twin(prefix: str, first: int, count: int) -> list[str]:
    return [f"{prefix}{number:012X}" for number in range(first, first + count)]


def in_log(store: StoreProcess, topic: str, count: int) -> list[str]:
    """The keys of the newest `count` messages."""
    store.await_dispatch()
    with Consumer(store.path, topic, offset=0, queues=[0]) as consumer:
        found: list[str] = []
        while part := consumer.poll_arrow(columns=("message_id",)).column(0):
            found += part.to_pylist()
    return found[-count:]


# Around each place where a part of the number is full.
EDGES = [1, (1 << 16) - 3, 1 << 16, (1 << 32) - 2, (1 << 47) - 1, (1 << 48) - 9]


@settings(max_examples=40, deadline=None)
@given(
    first=st.sampled_from(EDGES) | st.integers(1, (1 << 48) - 9),
    prefix=st.text("0123456789ABCDEF", min_size=20, max_size=20),
)
def test_keys_are_numbered(store: StoreProcess, first: int, prefix: str) -> None:
    with Producer(store.path) as producer:
        session_of(producer).number_keys(prefix, first)
        one = [producer.send("single", b"x", queue=0).message_id for _ in range(3)]
        batch = producer.send_batch("single", [b"x"] * 5, queue=0).message_ids
    assert one + batch == twin(prefix, first, 8)
    assert in_log(store, "single", 8) == twin(prefix, first, 8)


def test_numbering_may_change_between_messages(store: StoreProcess) -> None:
    wanted = []
    with Producer(store.path) as producer:
        for first in (70_000, 5, 65_535, 1):
            session_of(producer).number_keys(PREFIX, first)
            for _ in range(4):
                producer.send_oneway("again", b"", queue=0)
            wanted += twin(PREFIX, first, 4)
        producer.flush()
    assert in_log(store, "again", 16) == wanted


def test_what_is_no_number_is_refused(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        for prefix, first in [("0" * 19, 1), ("g" * 20, 1), ("a" * 20, 1), (PREFIX, 0)]:
            with pytest.raises(ValueError, match="a prefix of 20 hexadecimal digits"):
                session_of(producer).number_keys(prefix, first)
        with pytest.raises(ValueError, match="numbers from 1"):
            session_of(producer).number_keys(PREFIX, 1 << 48)
