"""A record made from another: the same message for another queue."""

from __future__ import annotations

from .format import LAYOUT, Record, encode_record
from .ids import Host

_BODY_AT = sum(LAYOUT["bodyLength"]) - 8  # less the hosts' addresses
#: The message is in the log already: its size was checked when it came in.
_ANY_SIZE = 2**31 - 1 - 65536


def copy_record(
    record: Record,
    topic: str,
    queue_id: int,
    properties: bytes,
    store_host: Host,
    *,
    sys_flag: int,
    prepared_transaction_offset: int = 0,
    record_crc: bool,
) -> tuple[bytes, tuple[int, int]]:
    """The record of the message for a queue of `topic`, and (begin, end) of the body in it, bytes.

    Body, flag, time and host of birth, and reconsumeTimes stay. `properties` are those without
    `__CRC32#`; with `record_crc` the record gets a new one. Raises IllegalMessage if it does not
    fit into a record.
    """
    made = encode_record(
        topic=topic.encode(),
        body=record.body,
        properties=properties,
        queue_id=queue_id,
        flag=record.flag,
        sys_flag=sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        store_host=store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        record_crc=record_crc,
        max_message_size=_ANY_SIZE,
    )
    return made, body_span(record.born_host, store_host, record.body)


def body_span(born_host: Host, store_host: Host, body: bytes) -> tuple[int, int]:
    """(begin, end) of the body in a record with these hosts, bytes from the record's start."""
    begin = _BODY_AT + len(born_host.address) + len(store_host.address)
    return begin, begin + len(body)


def without(properties: bytes, *names: str) -> bytes:
    """A property string without the pairs of these names. What is left ends with a separator."""
    starts = tuple(name.encode() + b"\x01" for name in names)
    pairs = [pair for pair in properties.split(b"\x02") if pair and not pair.startswith(starts)]
    return b"".join(pair + b"\x02" for pair in pairs)
