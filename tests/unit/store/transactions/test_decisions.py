"""Decisions as records. Any client can write any bytes there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.plain_decisions import read_decision

from silomq.store.errors import IllegalMessage
from silomq.store.names import TRANS_END_TOPIC
from silomq.store.record.format import Record, decode_record, encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import encode_properties
from silomq.store.transactions.decisions import Decision, encode_decision

HOST = Host.parse("10.1.2.3:10911")
GOOD = {
    "PGROUP": "pg",
    "TRAN_STATE_TABLE_OFFSET": "12",
    "COMMIT_LOG_OFFSET": "3456",
    "COMMIT_OR_ROLLBACK": "8",
}


def encoded(decision: Decision) -> Record:
    made = encode_decision(decision, born_ms=1, born_host=HOST, store_host=HOST, record_crc=True)
    return decode_record(made)


def record(properties: dict[str, str]) -> Record:
    pairs = encode_properties({name: value for name, value in properties.items() if value})
    return decode_record(encode_record(TRANS_END_TOPIC.encode(), b"", pairs))


@given(
    st.booleans(),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.sampled_from(["pg", "%x|_-"]),
    st.sampled_from(["", "A" * 32]),
)
def test_what_is_written_is_read(
    commit: bool, queue_offset: int, offset: int, group: str, key: str
) -> None:
    decision = Decision(commit, queue_offset, offset, group, key)
    found = encoded(decision)
    assert read_decision(found) == decision
    assert (found.topic, found.tags) == (TRANS_END_TOPIC, "commit" if commit else "rollback")


@pytest.mark.parametrize("kind", ["0", "4", "7", "9", "16", "x", ""])
def test_neither_commit_nor_rollback(kind: str) -> None:
    assert read_decision(record({**GOOD, "COMMIT_OR_ROLLBACK": kind})) is None


@pytest.mark.parametrize("name", ["TRAN_STATE_TABLE_OFFSET", "COMMIT_LOG_OFFSET"])
@pytest.mark.parametrize("value", ["", "-1", "x", "1.0", "9" * 20, str(2**63), "\u0663", " 1"])
def test_no_number(name: str, value: str) -> None:
    assert read_decision(record(GOOD)) is not None
    assert read_decision(record({**GOOD, name: value})) is None


def test_a_group_that_no_property_can_hold() -> None:
    with pytest.raises(IllegalMessage):
        encoded(Decision(True, 1, 2, "a\x01b", ""))
