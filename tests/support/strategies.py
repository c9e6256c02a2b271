"""Hypothesis strategies: records and what they consist of, and SQL92 filters."""

from __future__ import annotations

import string
from typing import Any

from hypothesis import strategies as st
from support.sql_twin import SEARCHES

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


_SQL_NAMES = st.sampled_from(["a", "b", "TAGS"])
_SQL_TEXTS = st.sampled_from(
    ["", "x", "it's", "true", "False", "1", "-1", "2.5", "1e1", " 3 ", "NaN", "9x", str(2**63)]
)
_SQL_NUMBERS = st.integers(-3, 12) | st.sampled_from([2.5, -0.5, 10.0, 2**63 - 1, -(2**63)])
#: Properties that those expressions ask for.
SQL_PROPERTIES = st.dictionaries(_SQL_NAMES, _SQL_TEXTS)
_OPERANDS = _SQL_NAMES.map(lambda n: ("property", n)) | _SQL_NUMBERS.map(lambda n: ("constant", n))
_LIMITS = st.tuples(st.integers(-3, 12), st.integers(-3, 12)).map(sorted)
_LEAVES = (
    st.tuples(st.sampled_from(["<", "<=", ">", ">="]), _OPERANDS, _OPERANDS)
    | st.tuples(
        st.sampled_from(["=", "<>"]),
        _OPERANDS,
        _OPERANDS | _SQL_TEXTS.map(lambda t: ("constant", t)) | st.just(("constant", True)),
    )
    | st.tuples(
        st.just("in"), _SQL_NAMES, st.booleans(), st.lists(_SQL_TEXTS, min_size=1, max_size=3)
    )
    | st.tuples(st.just("between"), _OPERANDS, st.booleans(), _LIMITS)
    | st.tuples(st.just("null"), _SQL_NAMES, st.booleans())
    | st.tuples(st.sampled_from(SEARCHES), _SQL_NAMES, st.booleans(), _SQL_TEXTS)
    | st.sampled_from([("constant", True), ("constant", False), ("constant", None)])
)
#: SQL92 filters as the trees of support/sql_twin.py.
SQL_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(st.just("not"), inner)
    ),
    max_leaves=6,
)
