"""The kernel that finds delivered messages in the log, against its twin."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from silomq.store.delay._delivered import delivered
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.properties import encode_properties

REAL = {"TAGS": "x", "REAL_TOPIC": "t", "REAL_QID": "2"}


def twin(log: bytes, position: int, end: int) -> tuple[list[int], int]:
    """`delivered`, in Python."""
    found = []
    while position < end:
        total, magic = struct.unpack_from(">iI", log, position) if position + 8 <= end else (0, 0)
        if magic not in {0xDAA320A7, 0xDAA320AB} or position + total > end:
            break
        one = decode_record(log, position, check_crc=False)
        waits = one.topic in {"SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"}
        if b"REAL_TOPIC\x01" in one.properties_raw and not waits:
            found.append(position)
        position += total
    return found, position


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["t", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "x" * 19, "y" * 200]
            ),
            st.sampled_from([{}, REAL, {"REAL_TOPIC2": "t"}, {"KEYS": "REAL_TOPIC"}]),
        ),
        max_size=12,
    ),
    st.integers(0, 40),
    st.integers(0, 400),
)
def test_the_scan_equals_its_twin(
    rows: list[tuple[str, dict[str, str]]], behind: int, cut: int
) -> None:
    log = b"".join(
        encode_record(topic.encode(), b"REAL_TOPIC\x01", encode_properties(properties))
        for topic, properties in rows
    ) + bytes(behind)
    end = max(0, len(log) - cut)
    assert delivered(log or b"\0", 0, end) == twin(log, 0, end)
