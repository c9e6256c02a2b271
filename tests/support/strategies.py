"""Hypothesis strategies for messages."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st

from silomq.store.record.format import encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import encode_properties

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
NAME_CHARACTERS = string.ascii_letters + string.digits + "%|_-"
TOPICS = st.text(NAME_CHARACTERS, min_size=1, max_size=127) | st.text(
    NAME_CHARACTERS, min_size=128, max_size=255
)
PROPERTY_TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=12
)
PROPERTIES = st.dictionaries(
    st.sampled_from(("TAGS", "KEYS", "UNIQ_KEY", "DELAY")) | PROPERTY_TEXT,
    PROPERTY_TEXT,
    max_size=5,
)
HOSTS = st.builds(
    Host,
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.integers(0, 65535),
)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "queue_id": I32,
        "flag": I32,
        "queue_offset": I64,
        "physical_offset": I64,
        "sys_flag": st.integers(0, 0x7FF).map(lambda bits: bits & ~0x30),
        "born_timestamp": I64,
        "born_host": HOSTS,
        "store_timestamp": I64,
        "store_host": HOSTS,
        "reconsume_times": I32,
        "prepared_transaction_offset": I64,
    }
)


@st.composite
def records(draw: st.DrawFn, /) -> bytes:
    """The bytes of an arbitrary record."""
    return encode_record(
        draw(TOPICS).encode(),
        draw(st.binary(max_size=300)),
        encode_properties(draw(PROPERTIES)),
        record_crc=draw(st.booleans()),
        **draw(FIELDS),
    )
