"""The columns of the data source, and the conversion of the kernel's batches for Spark.

Spark checks only the first batch of a task, and requires its schema exactly. So every array is cast
to the type that Spark's schema has in Arrow. All columns may be null, because a row for damaged
bytes has only physicalOffset, store and _corrupt.

===============  ===================  ============================================================
column           type                 meaning
===============  ===================  ============================================================
topic            string
queueId          int
queueOffset      bigint               index in the queue; of a light queue that in it
physicalOffset   bigint               address of the record in the log
storeTimestamp   timestamp            time of the append
bornTimestamp    timestamp            the client's time; null outside of the years 1 to 9999
tags             string               null without
keys             array<string>        empty without
properties       map<string,string>   all of them, tags and keys too
body             binary               decompressed, unless rawBodies is set; null if that fails
size             int                  bytes of the whole record
sysFlag          int                  RocketMQ's bits, as stored: compression, transactions
flag             int                  the application's
bodyCRC          int                  CRC-32 of the stored body without its top bit
reconsumeTimes   int                  how often consuming it failed
bornHost         string               ADDRESS:PORT of the client
storeHost        string               the same of the store
messageId        string               UNIQ_KEY, the id that the client gave; null without
store            string               folder of the store
_corrupt         string               only with onCorrupt=row: what is wrong from physicalOffset on
===============  ===================  ============================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

STORE: Final = "store"
CORRUPT: Final = "_corrupt"
#: Column of the source -> (of the kernel, Spark's type).
COLUMNS: Final = {
    "topic": ("topic", "string"),
    "queueId": ("queue_id", "int"),
    "queueOffset": ("queue_offset", "bigint"),
    "physicalOffset": ("physical_offset", "bigint"),
    "storeTimestamp": ("store_timestamp", "timestamp"),
    "bornTimestamp": ("born_timestamp", "timestamp"),
    "tags": ("tags", "string"),
    "keys": ("keys", "array<string>"),
    "properties": ("properties", "map<string,string>"),
    "body": ("body", "binary"),
    "size": ("size", "int"),
    "sysFlag": ("sys_flag", "int"),
    "flag": ("flag", "int"),
    "bodyCRC": ("body_crc", "int"),
    "reconsumeTimes": ("reconsume_times", "int"),
    "bornHost": ("born_host", "string"),
    "storeHost": ("store_host", "string"),
    "messageId": ("message_id", "string"),
}
_OURS: Final = {STORE: "string", CORRUPT: "string"}
#: Milliseconds since 1970 of the first and the last moment that Spark's timestamps can show.
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999


def schema_text(*, with_corrupt: bool) -> str:
    """All columns as Spark's DDL."""
    types = {name: kind for name, (_, kind) in COLUMNS.items()}
    types[STORE] = _OURS[STORE]
    if with_corrupt:
        types[CORRUPT] = _OURS[CORRUPT]
    return ", ".join(f"`{name}` {kind}" for name, kind in types.items())


def check_types(fields: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The names of a schema's fields, (name, simple type). Raises ValueError for an unknown column,
    or one of another type.
    """
    names = []
    for name, kind in fields:
        wanted = COLUMNS[name][1] if name in COLUMNS else _OURS.get(name)
        if wanted is None:
            known = ", ".join([*COLUMNS, *_OURS])
            raise ValueError(f"the source silomq has no column {name!r}; it has: {known}")
        if kind != wanted:
            raise ValueError(
                f"column {name} is of type {wanted}, not {kind}: read it so and cast it then"
            )
        names.append(name)
    return tuple(names)


def kernel_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The kernel's columns that are needed to make these columns."""
    return tuple(COLUMNS[name][0] for name in names if name in COLUMNS)


def in_light_queue(batch: Any, topic: str, queue_id: int, offsets: Iterable[int]) -> Any:
    """The kernel's `batch` with the place of each row in a light queue instead of that in its
    record: a filter on topic, queueId and queueOffset means the queue that is read.
    """
    import pyarrow as pa

    places = {
        "topic": pa.array([topic] * batch.num_rows),
        "queue_id": pa.array([queue_id] * batch.num_rows, pa.int32()),
        "queue_offset": pa.array(offsets, pa.int64()),
    }
    for number, field in enumerate(batch.schema):
        if field.name in places:
            batch = batch.set_column(number, field, places[field.name].cast(field.type))
    return batch


def to_spark(batch: Any, schema: Any, store: str) -> Any:
    """Converts the kernel's `batch` to Spark's Arrow `schema`; `store` is its store's folder."""
    import pyarrow as pa

    rows = batch.num_rows
    arrays = []
    for field in schema:
        if field.name == STORE:
            arrays.append(pa.repeat(pa.scalar(store, field.type), rows))
        elif field.name == CORRUPT:
            arrays.append(pa.nulls(rows, field.type))
        else:
            arrays.append(_fitted(batch.column(COLUMNS[field.name][0]), field.type))
    if not arrays:  # count() may ask for no column at all
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def corrupt_row(schema: Any, store: str, start: int, why: str) -> Any:
    """A batch of one row that says what is wrong from log offset `start` on."""
    import pyarrow as pa

    said = {"physicalOffset": start, STORE: store, CORRUPT: why}
    arrays = [pa.array([said.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fitted(array: Any, kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(array.type):
        numbers = array.cast(pa.int64())
        bounds = pc.min_max(numbers).as_py()
        if bounds["min"] is not None and (bounds["min"] < _FIRST_MS or bounds["max"] > _LAST_MS):
            good = pc.and_(pc.greater_equal(numbers, _FIRST_MS), pc.less_equal(numbers, _LAST_MS))
            array = pc.if_else(good, array, pa.scalar(None, array.type))
    return array if array.type == kind else array.cast(kind)
