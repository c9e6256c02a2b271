"""Halves of transactions, for tests that need no store."""

from __future__ import annotations

from msgspec.structs import replace

from silomq.store.names import TRANS_HALF_TOPIC
from silomq.store.record.format import Record, decode_record, encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import encode_properties
from silomq.store.transactions.half import Half, read_half

HOST = Host.parse("10.1.2.3:10911")
PROPERTIES = {
    "TRAN_MSG": "true",
    "PGROUP": "pg",
    "UNIQ_KEY": "A" * 32,
    "REAL_TOPIC": "t",
    "REAL_QID": "3",
    "TAGS": "x",
}


def half_record(
    queue_offset: int = 0,
    offset: int = 1000,
    *,
    stored_ms: int = 5000,
    body: bytes = b"body",
    topic: str = TRANS_HALF_TOPIC,
    flag: int = 7,
    born_ms: int = 4000,
    **properties: str | None,
) -> Record:
    """A record of the half topic as the log has it. None leaves a property out."""
    pairs = {**PROPERTIES, **properties}
    made = encode_record(
        topic.encode(),
        body,
        encode_properties({name: value for name, value in pairs.items() if value is not None}),
        flag=flag,
        born_timestamp=born_ms,
        born_host=HOST,
        reconsume_times=2,
    )
    return replace(
        decode_record(made),
        queue_offset=queue_offset,
        physical_offset=offset,
        store_timestamp=stored_ms,
    )


def half(queue_offset: int = 0, key: str = "K", **more: int | str) -> Half:
    """A half that lies at 1000 times its queue offset, with fields set as `more` says."""
    found = read_half(half_record(queue_offset, 1000 * queue_offset, UNIQ_KEY=key))
    return replace(found, **more)
