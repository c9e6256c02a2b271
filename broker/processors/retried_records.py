"""Messages of a retry topic, as RocketMQ answers them to clients that pop."""

from __future__ import annotations

from ...store.record.format import decode_record, encode_record
from ...store.record.properties import CRC32, encode_properties
from ..wire.receipts import POP_CK, Receipt


def as_original(record: bytes, topic: str, receipt: Receipt) -> bytes:
    """The record of a message of a retry topic as one of its original topic, with the receipt that
    leads to where it lies.
    """
    found = decode_record(record, check_crc=False)
    pairs = {name: value for name, value in found.properties.items() if name != CRC32}
    pairs[POP_CK] = receipt.text()
    return encode_record(
        topic.encode(),
        found.body,
        encode_properties(pairs),
        queue_id=found.queue_id,
        flag=found.flag,
        queue_offset=found.queue_offset,
        physical_offset=found.physical_offset,
        sys_flag=found.sys_flag,
        born_timestamp=found.born_timestamp,
        born_host=found.born_host,
        store_timestamp=found.store_timestamp,
        store_host=found.store_host,
        reconsume_times=found.reconsume_times,
        prepared_transaction_offset=found.prepared_transaction_offset,
    )
