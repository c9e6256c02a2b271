"""Rows of a DataFrame as messages: their columns, and the checks before anything is sent.

==============  =======================  =========================================================
column          type                     meaning
==============  =======================  =========================================================
body            binary or string         required, and never null
topic           string                   the option `topic` is used for a null or no column
tags            string                   one tag; null or empty: none
keys            string or array<string>  in a string, keys have spaces between them
properties      map<string,string>       the user's; the store's own names are refused
queueId         tinyint to bigint        null: the queues of a topic take turns
delay           bigint.. or timestamp    a number: a delay level from 1 on; a time: delivery then
bornTimestamp   timestamp                null: the time of sending
flag            tinyint to int           the application's number
==============  =======================  =========================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ...client.producing.message_properties import MAX_DELAY_MS, encode_extra
from ...conf.kinds import MAX_DELAY_LEVELS
from ...store.errors import IllegalMessage
from ...store.names import UNSENDABLE_TOPICS, validate_topic
from ...store.record.properties import CRC_PAIR_BYTES, MAX_PROPERTIES_BYTES

#: The columns of the staged files, in their order, with their types.
STAGED: Final = {
    "topic": pa.string(),
    "body": pa.binary(),
    "tags": pa.string(),
    "keys": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "queueId": pa.int32(),
    "delay": pa.int64(),
    "bornTimestamp": pa.int64(),
    "flag": pa.int64(),
}
#: A delay below this is a level; any other is a time (epoch ms), because no valid time is in 1970.
LEVELS_END: Final = 1 << 20
_UNIQUE_KEY_PAIR: Final = 42
_NAMED_PAIR: Final = len("TAGS") + 2
_FRAME_AND_RECORD: Final = 1024  # more than the fixed parts and the topic of a frame and a record
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_ALLOWED: Final = {
    "topic": ("string",),
    "body": ("binary", "string"),
    "tags": ("string",),
    "keys": ("string", "array<string>"),
    "properties": ("map<string,string>",),
    "queueId": _WHOLE,
    "delay": (*_WHOLE, "timestamp"),
    "bornTimestamp": ("timestamp",),
    "flag": _WHOLE[:3],
}
_SEPARATORS: Final = "[\x01\x02]"


class BadRow(ValueError):
    """A row or a column that cannot become a message. Nothing of the write was published."""


@dataclass(frozen=True)
class Limits:
    """The store's limits, in bytes: of a body, of a message in the ring, and of the properties that
    the store adds, which count with the others.
    """

    max_body: int
    max_frame: int
    own_properties: int

    @classmethod
    def of(cls, max_message_size: int, capacity: int, *, append_crc: bool) -> Limits:
        """The limits of a store (`StoreConfig`) and a ring of `capacity` bytes."""
        own = _UNIQUE_KEY_PAIR + (CRC_PAIR_BYTES if append_crc else 0)
        return cls(max_message_size, capacity // 2 - _FRAME_AND_RECORD, own)


def check_columns(columns: Iterable[tuple[str, str]], topic: str | None) -> None:
    """Checks columns, (name, Spark's name of the type), against the table above. Raises BadRow,
    which names everything that is wrong; `topic` is the option.
    """
    found = dict(columns)
    wrong = [
        f"column {name} is {kind}, not {' or '.join(_ALLOWED[name])}"
        for name, kind in found.items()
        if name in _ALLOWED and kind not in _ALLOWED[name]
    ]
    unknown = [name for name in found if name not in _ALLOWED]
    if unknown:
        wrong.append(
            f"unknown columns {', '.join(unknown)} (a message has {', '.join(_ALLOWED)}): "
            "drop or rename them"
        )
    if "body" not in found:
        wrong.append("there is no column body")
    if "topic" not in found and topic is None:
        wrong.append("there is no column topic, and no option topic in its place")
    if wrong:
        raise BadRow(f"this DataFrame cannot be written as messages: {'; '.join(wrong)}")


class Rows:
    """Checks the batches of one task, and brings them into the form of the staged files.

    `topics` has, for each topic, the highest queueId that is asked for, -1 without one.
    """

    def __init__(self, limits: Limits, topic: str | None, where: str) -> None:
        self.limits = limits
        self.topic = topic
        self.where = where
        self.count = 0
        self.topics: dict[str, int] = {}

    def staged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows with the columns of `STAGED`. Raises BadRow for the first row that cannot
        become a message.
        """
        for batch in batches:
            if batch.num_rows:
                columns = {name: self._column(batch, name) for name in STAGED}
                out = pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
                self._check(out)
                self.count += out.num_rows
                yield out

    def _column(self, batch: pa.RecordBatch, name: str) -> Any:
        kind = STAGED[name]
        if name not in batch.schema.names:
            default = self.topic if name == "topic" else None
            return pa.repeat(pa.scalar(default, kind), batch.num_rows)
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            column = pc.divide(micros, 1000)
            least = LEVELS_END if name == "delay" else 0
            self._refuse(column, pc.less(micros, 1000 * least), name, "is too early a time")
        elif name == "delay":
            column = column.cast(kind)
            outside = pc.or_(pc.less(column, 0), pc.greater(column, MAX_DELAY_LEVELS))
            self._refuse(column, outside, name, f"is no level from 0 to {MAX_DELAY_LEVELS}")
        elif name == "queueId":
            column = column.cast(pa.int64())
            outside = pc.or_(pc.less(column, 0), pc.greater_equal(column, 1 << 31))
            self._refuse(column, outside, name, "is no number of a queue")
        elif name == "keys" and not pa.types.is_string(column.type):
            column = self._joined(column)
        elif name == "flag":
            column = column.cast(kind)
            self._refuse(column, pc.less(column, 0), name, "is negative")
        elif name == "topic" and self.topic is not None:
            column = pc.fill_null(column, self.topic)
        return column.cast(kind)

    def _joined(self, column: Any) -> Any:
        """Joins arrays of keys into the text that a record has. Raises BadRow for a key that is
        null, empty or has a space, because readers would take it for two keys.
        """
        flat = column.flatten()
        no_key = pc.or_(pc.equal(flat, ""), pc.match_substring(flat, " "))
        bad = pc.fill_null(no_key, True)  # noqa: FBT003  pyarrow's own signature
        if pc.any(bad).as_py():
            rows = pc.list_parent_indices(column)
            row = pc.filter(rows, bad)[0].as_py()
            key = pc.filter(flat, bad)[0].as_py()
            raise self._bad(row, "keys", key, "is null, empty, or has a space: it is no key")
        return pc.binary_join(column.cast(pa.list_(pa.string())), " ")

    def _refuse(self, column: Any, bad: Any, name: str, why: str) -> None:
        """Raises BadRow for the first row that is bad; a null is not bad."""
        bad = pc.fill_null(bad, False)  # noqa: FBT003  the same
        if pc.any(bad).as_py():
            row = pc.index(bad, True).as_py()
            raise self._bad(row, name, column[row].as_py(), why)

    def _bad(self, row: int, name: str, value: object, why: str) -> BadRow:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:80]}..."
        place = f"row {self.count + row + 1} of {self.where}"
        return BadRow(f"{place}: {name} {shown} {why}; nothing of this write was published")

    def _check(self, batch: pa.RecordBatch) -> None:
        topic, body = batch.column("topic"), batch.column("body")
        self._refuse(topic, pc.is_null(topic), "topic", "is null, and there is no option topic")
        self._refuse(body, pc.is_null(body), "body", "is null: a message has a body")
        most = self.limits.max_body
        size = pc.binary_length(body)
        self._refuse(size, pc.greater(size, most), "body of bytes:", f"is too large, of {most}")
        for name in ("tags", "keys"):
            column = batch.column(name)
            found = pc.match_substring_regex(column, _SEPARATORS)
            self._refuse(column, found, name, "holds RocketMQ's separator 0x01 or 0x02")
        self._check_topics(batch)
        self._check_delay(batch.column("delay"))
        self._check_properties(batch)

    def _check_topics(self, batch: pa.RecordBatch) -> None:
        pairs = pa.table([batch.column("topic"), batch.column("queueId")], names=["topic", "queue"])
        for found in pairs.group_by("topic").aggregate([("queue", "max")]).to_pylist():
            name, queue = found["topic"], found["queue_max"]
            try:
                validate_topic(name)
                why = "is a topic of the store's own" if name in UNSENDABLE_TOPICS else ""
            except IllegalMessage as error:
                why = f"is no topic: {error.why}"
            if why:
                row = pc.index(batch.column("topic"), name).as_py()
                raise self._bad(row, "topic", name, why)
            highest = -1 if queue is None else queue
            self.topics[name] = max(self.topics.get(name, -1), highest)

    def _check_delay(self, column: Any) -> None:
        latest = int(time.time() * 1000) + MAX_DELAY_MS
        late = pc.and_(pc.greater(column, latest), pc.greater_equal(column, LEVELS_END))
        self._refuse(column, late, "delay", "(epoch ms) is more than three days ahead")

    def _check_properties(self, batch: pa.RecordBatch) -> None:
        """Checks the length of all properties of a record together, and the user's properties one
        by one.
        """
        total = pa.repeat(pa.scalar(self.limits.own_properties, pa.int64()), batch.num_rows)
        for name in ("tags", "keys"):
            length = pc.fill_null(pc.binary_length(batch.column(name)), 0)
            taken = pc.if_else(pc.greater(length, 0), pc.add(length, _NAMED_PAIR), 0)
            total = pc.add(total, taken)
        column = batch.column("properties")
        if column.null_count < len(column):
            total = pc.add(total, pa.array(self._user_sizes(column), pa.int64()))
        most = MAX_PROPERTIES_BYTES
        why = f"are too many, a record holds {most} (tags and keys among them)"
        self._refuse(total, pc.greater(total, most), "bytes of properties", why)
        whole = pc.add(total, pc.binary_length(batch.column("body")))
        most = self.limits.max_frame
        why = f"of body and properties are too many for the producer's ring, {most}"
        self._refuse(whole, pc.greater(whole, most), "bytes", why)

    def _user_sizes(self, column: Any) -> Iterator[int]:
        for row, pairs in enumerate(column.to_pylist()):
            try:
                yield len(encode_extra(dict(pairs), wait_store=True)) if pairs else 0
            except IllegalMessage as error:
                why = f"cannot be sent: {error.why}"
                raise self._bad(row, "properties", dict(pairs), why) from None


SCHEMA: Final = pa.schema(list(STAGED.items()))
