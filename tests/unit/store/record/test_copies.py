"""A record made from another, and property strings without some pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.record.copies import body_span, copy_record, without
from silomq.store.record.format import decode_record, encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import decode_properties, encode_properties

HOST = Host.parse("10.1.2.3:10911")
SIX = Host.parse("[::1]:7")


@pytest.mark.parametrize("born", [HOST, SIX], ids=str)
@pytest.mark.parametrize("stored", [HOST, SIX], ids=str)
@pytest.mark.parametrize("crc", [False, True])
def test_a_copy_keeps_what_the_producer_said(born: Host, stored: Host, *, crc: bool) -> None:
    source = decode_record(
        encode_record(
            b"t", b"body", encode_properties({"A": "1"}), queue_id=2, flag=7,
            born_timestamp=1234, born_host=born, reconsume_times=3,
        )
    )  # fmt: skip
    made, body = copy_record(
        source, "u", 5, b"B\x012\x02", stored,
        sys_flag=8, prepared_transaction_offset=99, record_crc=crc,
    )  # fmt: skip
    out = decode_record(made)
    assert made[slice(*body)] == b"body"
    assert body == body_span(born, stored, b"body")
    assert (out.topic, out.queue_id, out.flag, out.reconsume_times) == ("u", 5, 7, 3)
    assert (out.born_timestamp, out.born_host, out.store_host) == (1234, born, stored)
    assert (out.transaction_type, out.prepared_transaction_offset) == (8, 99)
    assert out.properties["B"] == "2"
    assert ("__CRC32#" in out.properties) == crc
    assert "A" not in out.properties


NAMES = st.text("AB", min_size=1, max_size=3)


@given(st.dictionaries(NAMES, st.text("AB", min_size=1)), st.lists(NAMES))
def test_only_whole_names_are_left_out(pairs: dict[str, str], names: list[str]) -> None:
    left = without(encode_properties(pairs), *names)
    assert decode_properties(left) == {n: v for n, v in pairs.items() if n not in names}
    assert not left or left.endswith(b"\x02")


def test_a_string_without_a_separator_at_its_end_gets_one() -> None:
    assert without(b"A\x011\x02B\x012", "A") == b"B\x012\x02"
