"""Look-ups by key over random messages are what a plain scan of them gives."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.twins import twin_index

from silomq.store.errors import Corrupt
from silomq.store.index import key_lookup
from silomq.store.index.file import HEADER, IndexFiles
from silomq.store.index.key_lookup import KeyQuery
from silomq.store.index.published import PublishedFile
from silomq.store.record.javahash import index_key_hash
from silomq.store.record.properties import UNIQ_KEY, index_keys

if TYPE_CHECKING:
    from silomq.store.disk.files import Folder
    from silomq.store.record.format import Record

SLOTS, ENTRIES = 4, 12
#: "Aa" and "BB", "AaAa" and so on have one hash.
KEYS = ("Aa", "BB", "AaBB", "BBAa", "AaAa", "k", "order-1")


@dataclass(frozen=True)
class Message:
    """What the index and look-ups by key ask of a record."""

    physical_offset: int
    topic: str
    store_timestamp: int
    properties: dict[str, str] = field(default_factory=dict)
    transaction_type: int = 0
    sys_flag: int = 0


@st.composite
def messages(draw: st.DrawFn, /) -> list[Message]:
    found, stored, at = [], 1_000_000, 0
    for _ in range(draw(st.integers(1, 40))):
        stored += draw(st.sampled_from((0, 1, 400, 999, 1000, 5000)))
        properties = {}
        keys = draw(st.lists(st.sampled_from(KEYS), max_size=3))
        if keys:
            properties["KEYS"] = " ".join(keys)
        if draw(st.booleans()):
            properties[UNIQ_KEY] = draw(st.sampled_from(KEYS))
        found.append(Message(at, draw(st.sampled_from(("t", "u"))), stored, properties))
        at += draw(st.integers(100, 300))
    return found


def indexed(sent: list[Message], published: int | None = None) -> list[PublishedFile]:
    """Index files over the messages, as a reader has them mapped."""
    shape = IndexFiles(cast("Folder", SimpleNamespace(path="index")), SLOTS, ENTRIES)
    files = []
    twins = twin_index(cast("list[Record]", sent), SLOTS, ENTRIES)
    for name, twin in enumerate(twins):
        view = memoryview(bytearray(twin.bytes()))
        begin, end, _, _, _, count = HEADER.unpack_from(view)
        if published is not None and name == len(twins) - 1:
            count = min(count, published)
        files.append(PublishedFile(shape, name, view, (begin, end, count)))
    return files


@given(
    sent=messages(),
    key=st.sampled_from(KEYS),
    most=st.integers(1, 10),
    begin=st.integers(990_000, 1_050_000),
    length=st.integers(0, 60_000),
    unique=st.booleans(),
)
def test_a_key_leads_to_what_a_scan_finds(
    *, sent: list[Message], key: str, most: int, begin: int, length: int, unique: bool
) -> None:
    query = KeyQuery("t", key, most, begin, begin + length)
    by_place = {message.physical_offset: message for message in sent}
    found = key_lookup.matching(indexed(sent), query, by_place.get, unique=unique)
    right = [
        message
        for message in sent
        if message.topic == "t"
        and begin <= message.store_timestamp <= begin + length
        and key
        in ([message.properties.get(UNIQ_KEY)] if unique else index_keys(message.properties))
    ]
    assert found == right[-most:]


@given(sent=messages(), key=st.sampled_from(KEYS), most=st.integers(1, 10))
def test_rocketmq_keys_without_a_window(sent: list[Message], key: str, most: int) -> None:
    """All entries of the hash, newest first: a message twice that was put twice."""
    query = KeyQuery("t", key, most, 0, 2**63 - 1)
    put = [
        message.physical_offset
        for message in sent
        for one in index_keys(message.properties)
        if message.topic == "t" and (one == key or {one, key} in ALIKE)
    ]
    files = indexed(sent)
    assert key_lookup.rocketmq_offsets(files, query, 64) == put[::-1][:most]
    assert key_lookup.rocketmq_offsets(files, query, 2) == put[::-1][: min(most, 2)]
    by_place = {message.physical_offset: message for message in sent}
    newest = sorted(put[::-1][:most])
    answer = key_lookup.rocketmq_messages(files, query, 64, by_place.get)
    assert [message.physical_offset for message in answer] == newest


ALIKE = [{"Aa", "BB"}] + [
    {a, b} for a in ("AaBB", "BBAa", "AaAa") for b in ("AaBB", "BBAa", "AaAa") if a != b
]


@given(sent=messages(), key=st.sampled_from(KEYS), published=st.integers(1, ENTRIES))
def test_only_what_is_published_counts(sent: list[Message], key: str, published: int) -> None:
    """Entries at or behind the published number may be taken back, so they are passed over."""
    entries = [(message, one) for message in sent for one in index_keys(message.properties)]
    files = indexed(sent)
    in_last = files[-1].count - 1 if files else 0
    counted = entries[: len(entries) - in_last + min(in_last, published - 1)]
    query = KeyQuery("t", key, 1000, 0, 2**63 - 1)
    by_place = {message.physical_offset: message for message in sent}
    found = key_lookup.matching(indexed(sent, published), query, by_place.get)
    # An entry of any key with the same hash leads to the message.
    led = [m for m, one in counted if index_key_hash("t", one) == index_key_hash("t", key)]
    right = [
        m
        for m in sent
        if m.topic == "t" and key in index_keys(m.properties) and any(m is one for one in led)
    ]
    assert found == right


def test_a_damaged_chain_is_said() -> None:
    sent = [Message(100 * i, "t", 1_000_000, {"KEYS": "k"}) for i in range(5)]
    files = indexed(sent)
    at = 40 + 4 * SLOTS + 20 * 3 + 16
    struct.pack_into(">i", files[0]._view, at, 9)
    query = KeyQuery("t", "k", 10, 0, 2**63 - 1)
    with pytest.raises(Corrupt, match=r"index entry 3.*silo repair"):
        key_lookup.matching(files, query, lambda at: sent[at // 100])
