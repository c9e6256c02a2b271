"""The transactions of a store that are open: nobody has committed them or rolled them back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...store.config import offsets as offsets_json
from ...store.disk.paths import CONFIG
from ...store.errors import Corrupt, MessageNotFound
from ...store.names import TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from ...store.reading.get_message import next_queue_file
from ...store.record.format import Record, decode_record
from ...store.transactions.book import Book
from ...store.transactions.decisions import Decision
from ...store.transactions.half import NotAHalf, read_half
from ...store.transactions.ops import read_op
from .. import arguments
from ..lookup.open_store import OpenStore
from ..lookup.stopped_store import StoppedStore
from ..producing.producer import Producer
from ..producing.send_result import SendResult
from .transaction import send_decision

_BATCH: Final = 1024


@dataclass(frozen=True)
class OpenTransaction:
    """An open transaction: its message's UNIQ_KEY, its producer group, and the topic and queue for
    which the message is. When it was sent and when its newest half was stored (epoch ms), and how
    often its producers were asked. Where that half is: an offset in the half queue, one in the log,
    and its size (bytes).
    """

    message_id: str
    group: str
    topic: str
    queue_id: int
    born_timestamp: int
    store_timestamp: int
    checks: int
    queue_offset: int
    physical_offset: int
    size: int


def open_transactions(
    store: str | os.PathLike[str], *, stopped: bool = False
) -> list[OpenTransaction]:
    """The open transactions of a store, the oldest first. With `stopped` the store does not run.

    What was decided in the last milliseconds may still be among them. Raises StoreClosed, Corrupt,
    OSError.
    """
    path = arguments.store(store)
    files = StoppedStore(path) if arguments.switch("stopped", stopped) else OpenStore(path)
    with contextlib.closing(files):
        first, first_op = _begin(files, path)
        # Op records first. A check puts a half once more, and an op record then names the older
        # one: read in the other order, both could be missed.
        done: set[int] = set()
        for _, record in _places(files, TRANS_OP_HALF_TOPIC, first_op):
            done.update(read_op(record))
        found = list(_places(files, TRANS_HALF_TOPIC, first))
    book = Book(first, 0, 0)
    for place, record in found:
        if place in done:
            continue
        with contextlib.suppress(NotAHalf):
            book.add(read_half(record))
    return [
        OpenTransaction(
            half.key,
            half.group,
            half.topic,
            half.queue_id,
            half.born_ms,
            half.stored_ms,
            half.checks,
            half.queue_offset,
            half.offset,
            half.size,
        )
        for half in book
    ]


def _begin(files: OpenStore | StoppedStore, path: str) -> tuple[int, int]:
    """The queue offsets from which halves may be open, and op records may be needed."""
    if isinstance(files, OpenStore):
        return files.transactions
    saved, _ = offsets_json.load(os.path.join(path, CONFIG, offsets_json.OFFSETS_FILE))
    halves = saved.get((TRANS_HALF_TOPIC, TRANS_GROUP), {}).get(0, 0)
    return halves, saved.get((TRANS_OP_HALF_TOPIC, TRANS_GROUP), {}).get(0, 0)


def _places(
    files: OpenStore | StoppedStore, topic: str, begin: int
) -> Iterator[tuple[int, Record]]:
    """The records of a topic's only queue from queue offset `begin` to its present end, with their
    queue offsets. What was removed or is damaged is left out.
    """
    queue = files.queue_if_any(topic, 0)
    if queue is None:
        return
    place, end = max(begin, queue.least), queue.end
    while place < end:
        try:
            entries = queue.entries(place, min(_BATCH, end - place))
        except FileNotFoundError:
            queue.check_topic()
            place = max(queue.least, next_queue_file(place, queue.file_size))
            continue
        for at, size, _ in entries:
            record = files.log.part(at, size)
            if record is not None:
                with contextlib.suppress(Corrupt):
                    yield place, decode_record(record)
            place += 1


def end_transaction(
    store: str | os.PathLike[str], message_id: str, *, commit: bool
) -> tuple[OpenTransaction, SendResult]:
    """Commits an open transaction in the place of its producers, or rolls it back. Returns it, and
    where the decision is stored. Raises MessageNotFound unless one transaction with this message id
    is open, StoreClosed, and as `Producer.send`.
    """
    arguments.text("message_id", message_id)
    found = [one for one in open_transactions(store) if one.message_id == message_id]
    if len(found) != 1:
        many = "no transaction" if not found else f"{len(found)} transactions"
        raise MessageNotFound(f"{many} with the message id {message_id[:255]!a} are open")
    (one,) = found
    decision = Decision(
        commit=commit,
        queue_offset=one.queue_offset,
        offset=one.physical_offset,
        group=one.group,
        key=one.message_id,
    )
    with Producer(store) as producer:
        return one, send_decision(producer, decision)
