"""The content of a store's files, piece by piece, as plain values.

Damage is reported as a piece that says what is wrong; the next piece is the next valid one. Nothing
is written.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ..store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE
from ..store.errors import Corrupt
from ..store.index.file import HEADER
from ..store.record.format import decode_record
from ..store.recovery.checkpoint import CHECKPOINT
from .raw.files import BadInput
from .raw.walk import Found, walk_log
from .rocketmq.indexes import IndexFileView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..store.record.format import Record
    from .raw.files import StoreFiles

Piece = dict[str, Any]
_CHECKPOINT_FIELDS = (
    "physicMsgTimestamp",
    "logicsMsgTimestamp",
    "indexMsgTimestamp",
    "masterFlushedOffset",
    "confirmPhyOffset",
)


def record_values(record: Record) -> Piece:
    """All fields of a record under RocketMQ's names. The body is text if it is UTF-8, else in
    hex.
    """
    values: Piece = {
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "physicalOffset": record.physical_offset,
        "version": record.version,
        "bodyCRC": record.body_crc,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_timestamp,
        "bornHost": str(record.born_host),
        "storeTimestamp": record.store_timestamp,
        "storeHost": str(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "msgId": record.offset_message_id,
        "properties": record.properties,
        "bodyLength": len(record.body),
    }
    try:
        values["body"] = record.body.decode()
    except UnicodeDecodeError:
        values["bodyHex"] = record.body.hex()
    return values


def dump_commitlog(
    files: StoreFiles, offset: int | None = None, count: int | None = None
) -> Iterator[Piece]:
    """Pieces of the log from address `offset` on, at most `count`: records, ends of files, damage,
    the tail.
    """
    for found in islice(walk_log(files, offset or 0), count):
        yield _log_piece(found)


def _log_piece(found: Found) -> Piece:
    piece: Piece = {"kind": found.kind.value, "offset": found.offset, "size": found.size}
    if found.why:
        piece["wrong"] = found.why
    if found.record is not None:
        piece |= record_values(found.record)
    return piece


def dump_record(files: StoreFiles, offset: int) -> Piece:
    """The record at log address `offset`. Raises BadInput if no record begins there."""
    base = offset - offset % files.log_size
    if base not in files.log_bases:
        bases = [file.base for file in files.log]
        has = f"{bases[0]} to {bases[-1] + files.log_size}" if bases else "nothing"
        raise BadInput(f"{files.path}: the commit log holds no offset {offset}; it holds {has}")
    view, path = files.log_view(base), files.log_path(base)
    try:
        record = decode_record(view, offset - base, path=path, base=base, check_crc=False)
    except Corrupt as error:
        raise BadInput(
            f"{path}: no record begins at offset {offset} ({error.why}); "
            "`silo dump commitlog --offset` begins at the next one"
        ) from error
    piece: Piece = {"kind": "record", "offset": offset, "size": record.total_size}
    try:
        decode_record(view, offset - base, path=path, base=base)
    except Corrupt as error:
        piece["wrong"] = error.why
    if record.physical_offset != offset:
        piece["wrong"] = f"the record names offset {record.physical_offset}"
    return piece | record_values(record)


def dump_queues(
    files: StoreFiles,
    topic: str | None = None,
    queue_id: int | None = None,
    offset: int | None = None,
    count: int | None = None,
) -> Iterator[Piece]:
    """Entries of the queues (of one topic, of one queue) from queue offset `offset` on, `count` of
    each. Raises BadInput for a topic or queue without a folder.
    """
    chosen = [
        queue
        for queue in files.queues()
        if topic in (None, queue[0]) and queue_id in (None, queue[1])
    ]
    if not chosen and (topic is not None or queue_id is not None):
        raise BadInput(
            f"{files.path} has no folder of a queue {topic or '*'}/"
            f"{'*' if queue_id is None else queue_id}; `ls {files.path}/consumequeue` shows them"
        )
    for queue in chosen:
        yield from islice(_queue_pieces(files, *queue, offset or 0), count)


def _queue_pieces(files: StoreFiles, topic: str, queue_id: int, start: int) -> Iterator[Piece]:
    found = files.queue_files(topic, queue_id)
    for number, file in enumerate(found):
        view = files.view(files.queue_path(topic, queue_id, file.base))
        first = max(start * ENTRY_SIZE - file.base, 0)
        for position in range(first, files.queue_size, ENTRY_SIZE):
            unit = view[position : position + ENTRY_SIZE]
            offset, size, tags_code = ENTRY.unpack(unit)
            piece: Piece = {
                "kind": "blank" if unit == BLANK_ENTRY else "entry",
                "topic": topic,
                "queueId": queue_id,
                "queueOffset": (file.base + position) // ENTRY_SIZE,
                "offset": offset,
                "size": size,
                "tagsCode": tags_code,
            }
            if offset < 0 or size <= 0:
                if not any(view[position:]) and number + 1 == len(found):
                    return
                if not any(unit):
                    # Several empty entries before a valid one make one piece.
                    if position and not any(view[position - ENTRY_SIZE : position]):
                        continue
                    piece["wrong"] = "empty entries, though others follow"
                else:
                    piece["wrong"] = "no entry: offset or size cannot be"
            yield piece


def dump_index(
    files: StoreFiles, offset: int | None = None, count: int | None = None
) -> Iterator[Piece]:
    """For each index file its header, then its entries from number `offset` (default 1) on, `count`
    of each.
    """
    for name in files.index_files():
        file = IndexFileView(files, name)
        slot_count, index_count = HEADER.unpack_from(files.view(files.index_path(name)))[4:]
        piece: Piece = {
            "kind": "index",
            "file": f"{name:017d}",
            "beginTimestamp": file.begin_ms,
            "endTimestamp": file.end_ms,
            "beginPhyOffset": file.begin_offset,
            "endPhyOffset": file.end_offset,
            "hashSlotCount": slot_count,
            "indexCount": index_count,
        }
        if not 0 <= index_count <= file.capacity:
            piece["wrong"] = f"it holds at most {file.capacity} entries"
        yield piece
        first = max(1, offset or 1)
        last = min(file.count, file.capacity)
        for number in range(first, last if count is None else min(last, first + count)):
            yield _index_piece(file, name, number)


def _index_piece(file: IndexFileView, name: int, number: int) -> Piece:
    key_hash, offset, seconds, older = file.entry(number)
    piece: Piece = {
        "kind": "entry",
        "file": f"{name:017d}",
        "number": number,
        "keyHash": key_hash,
        "slot": key_hash % file.slots,
        "offset": offset,
        "seconds": seconds,
        "previous": older,
    }
    if key_hash < 0 or seconds < 0:
        piece["wrong"] = "a negative hash or time"
    elif not 0 <= older < number:
        piece["wrong"] = "the chain does not lead to an older entry"
    return piece


def dump_checkpoint(files: StoreFiles) -> Piece:
    """The five fields of the checkpoint. Raises BadInput if there is none."""
    data = files.small_file(CHECKPOINT)
    if data is None:
        raise BadInput(
            f"{files.path} has no file {CHECKPOINT}: the store was never stopped or synced"
        )
    found = files.checkpoint()
    values = (
        found.physic_msg_timestamp,
        found.logics_msg_timestamp,
        found.index_msg_timestamp,
        found.master_flushed_offset,
        found.confirm_phy_offset,
    )
    piece: Piece = {"kind": "checkpoint", **dict(zip(_CHECKPOINT_FIELDS, values, strict=True))}
    if any(data[40:]):
        piece["wrong"] = "not zero behind the five fields"
    return piece
