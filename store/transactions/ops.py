"""Op records: the halves that are done, in RMQ_SYS_TRANS_OP_HALF_TOPIC.

The tag is "d". The body is decimal queue offsets of halves, each with a comma behind it, in up to
4,096 bytes. One alone has no comma here: RocketMQ before 5.1 writes and reads no other form, and
later releases read it too. Source: RocketMQ's `TransactionalMessageServiceImpl` and
`TransactionalOpBatchService`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ..names import TRANS_OP_HALF_TOPIC
from ..record.format import Record, encode_record
from ..record.ids import Host
from ..record.properties import TAGS, encode_properties

_TAG: Final = "d"
_PROPERTIES: Final = encode_properties({TAGS: _TAG})


def op_bodies(queue_offsets: Iterable[int], most_bytes: int) -> Iterator[tuple[bytes, list[int]]]:
    """The bodies of op records for these halves, each with the queue offsets that it holds: as many
    as fit, but at least one.
    """
    size, held = 0, list[int]()
    for queue_offset in queue_offsets:
        more = len(f"{queue_offset},")
        if held and size + more > most_bytes:
            yield _body(held), held
            size, held = 0, []
        size += more
        held.append(queue_offset)
    if held:
        yield _body(held), held


def _body(held: list[int]) -> bytes:
    return (str(held[0]) if len(held) == 1 else "".join(f"{one}," for one in held)).encode()


def encode_op(body: bytes, born_ms: int, host: Host, *, record_crc: bool) -> bytes:
    """An op record with this body, for queue 0 of the topic."""
    return encode_record(
        topic=TRANS_OP_HALF_TOPIC.encode(),
        body=body,
        properties=_PROPERTIES,
        born_timestamp=born_ms,
        born_host=host,
        store_host=host,
        record_crc=record_crc,
    )


def read_op(record: Record) -> list[int]:
    """The queue offsets of halves that an op record calls done. Empty for any other record."""
    if record.tags != _TAG:
        return []
    parts = record.body.decode("ascii", "replace").split(",")
    return [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= 19]
