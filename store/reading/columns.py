"""Reads records of the log as columns of Arrow, without a Python object for each record.

pyarrow is optional (`pip install 'silomq[arrow]'`). Only requested columns cost time. They are:

===================  ==================  =========================================================
column               type                meaning
===================  ==================  =========================================================
topic                string
queue_id             int32
queue_offset         int64               index in the queue
physical_offset      int64               address of the record in the log
store_timestamp      timestamp[ms, UTC]  time of the append
born_timestamp       timestamp[ms, UTC]  the client's time
tags                 string              TAGS; null if missing
keys                 list<string>        KEYS, split at spaces; empty if missing
properties           map<string,string>  all; of a name that occurs twice, the last value
body                 binary              decompressed, if a producer compressed it; see below
size                 int32               bytes of the whole record
sys_flag             int32               bits, see SYS_* in `store/record/format.py`
flag                 int32               set by the application
body_crc             int32               CRC-32 of the stored body without its top bit
reconsume_times      int32               how often consuming it failed
born_host            string              the client, ADDRESS:PORT or [IPV6]:PORT
store_host           string              the store, in the same form
message_id           string              UNIQ_KEY, the client's id; null if missing
===================  ==================  =========================================================

U+FFFD replaces text that is not UTF-8: a bad message must not stop a job. For the same reason a
compressed body that cannot be decompressed (`store/record/compression.py`) is null, and a warning
in the log `silomq` says which one and why. A reader may ask for bodies as they are stored instead.
`sys_flag` stays as it is stored.

With `BodyForm.VIEWS` the column `body` has the type binary_view: 16 bytes a row that point into the
mapped log, so no body is copied. The arrays keep the log's files mapped while they live.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from ..commitlog._scan import find_record
from ..errors import CorruptRange, IllegalArgument
from ._columns import BAD_CRC, BAD_LENGTHS, BAD_OFFSET, END_OF_FILE, FULL, NOTHING, Columns

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: The name of a column, for `columns=` of `poll_arrow`.
ColumnName: TypeAlias = Literal[
    "topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp", "born_timestamp",
    "tags", "keys", "properties", "body", "size", "sys_flag", "flag", "body_crc",
    "reconsume_times", "born_host", "store_host", "message_id",
]  # fmt: skip
#: All columns, in the order of the kernel's numbers (`COL_*` in columns.h).
COLUMNS: Final[tuple[ColumnName, ...]] = get_args(ColumnName)
_LOG = logging.getLogger("silomq")
_LONG = ("queue_offset", "physical_offset")
_TIME = ("store_timestamp", "born_timestamp")
_TEXT = ("topic", "tags", "born_host", "store_host", "message_id")
_ELEMENTS, _NAMES, _VALUES, _COPIED = -1, -2, -3, -4
#: The first pyarrow that makes an array of views from buffers.
_VIEWS_SINCE = 19
_VIEW_SIZE = 16
#: The most bytes of records in one batch. U+FFFD can triple the bytes of a text, and its int32
#: offsets must still fit.
MOST_BYTES = 1 << 29


class BodyForm(IntFlag):
    """What a column of bodies holds; by default copies, decompressed."""

    COPIES = 0
    RAW = 1  # as they are stored
    VIEWS = 2  # pointers into the log


def new_columns(columns: Iterable[str], form: BodyForm) -> Columns:
    """Empty columns with these names. Raises IllegalArgument for an unknown name, ImportError for
    views with a pyarrow that is too old.
    """
    if BodyForm.VIEWS in form:
        version = arrow().__version__
        if int(version.split(".")[0]) < _VIEWS_SINCE:
            raise ImportError(
                f"views of bodies need pyarrow {_VIEWS_SINCE} or newer, this is {version}: "
                f"pip install 'pyarrow>={_VIEWS_SINCE}'"
            )
    return Columns(mask_of(columns), BodyForm.RAW in form, BodyForm.VIEWS in form)


def arrow() -> Any:
    """The pyarrow module. Raises ImportError, which says how to install it."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            "columns need pyarrow, which is not installed: pip install 'silomq[arrow]'"
        ) from error
    return pa


def mask_of(columns: Iterable[str]) -> int:
    """The kernel's bits for names of columns. Raises IllegalArgument for an unknown name."""
    mask = 0
    for name in columns:
        if name not in COLUMNS:
            raise IllegalArgument(f"no column {name!r}; there are: {', '.join(COLUMNS)}")
        mask |= 1 << COLUMNS.index(name)
    return mask


def schema(columns: Iterable[str] = COLUMNS, form: BodyForm = BodyForm.COPIES) -> pa.Schema:
    """The schema of batches with these columns, in their order. Raises IllegalArgument for an
    unknown name, ImportError without pyarrow.
    """
    names = tuple(columns)
    mask_of(names)
    return _schema(names, views=BodyForm.VIEWS in form)


@functools.cache
def _schema(names: tuple[str, ...], *, views: bool) -> Any:
    return arrow().schema([(name, _type(name, views=views)) for name in names])


@functools.cache
def _type(name: str, *, views: bool) -> Any:
    pa = arrow()
    if name in _TEXT:
        return pa.string()
    if name in _LONG:
        return pa.int64()
    if name in _TIME:
        return pa.timestamp("ms", "UTC")
    special = {
        "body": pa.binary_view() if views else pa.binary(),
        "keys": pa.list_(pa.string()),
        "properties": pa.map_(pa.string(), pa.string()),
    }
    return special.get(name, pa.int32())


def to_batch(filled: Columns, columns: tuple[str, ...] = COLUMNS) -> pa.RecordBatch:
    """The rows of `filled` as a batch with these columns, in their order. It takes the kernel's
    memory, so `filled` cannot be used again.
    """
    for offset, why in filled.bad_bodies:
        _LOG.warning("the body of the message at log offset %d is null here: %s", offset, why)
    parts = filled.parts()
    wanted = schema(columns, BodyForm.VIEWS if filled.has_views else BodyForm.COPIES)
    arrays = [_array(name, wanted.field(name).type, filled, parts) for name in columns]
    return arrow().RecordBatch.from_arrays(arrays, schema=wanted)


def _array(name: str, kind: Any, filled: Columns, parts: dict[int, Any]) -> Any:
    pa, rows = arrow(), filled.rows
    nulls, valid, ends, data = parts[COLUMNS.index(name)]
    if name == "body" and filled.has_views:
        bits = pa.py_buffer(valid) if nulls else None
        buffers = [bits, *map(pa.py_buffer, (data, parts[_COPIED][3], *filled.sources))]
        return pa.Array.from_buffers(kind, rows, buffers, nulls)
    if name in _TEXT or name == "body":
        bits = pa.py_buffer(valid) if nulls else None
        buffers = [bits, pa.py_buffer(ends), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, rows, buffers, nulls)
    if name == "keys":
        elements = _text(pa, parts[_ELEMENTS])
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(ends)], 0, 0, [elements])
    if name == "properties":
        names, values = _text(pa, parts[_NAMES]), _text(pa, parts[_VALUES])
        pairs = pa.StructArray.from_arrays(
            [names, values], fields=[kind.key_field, kind.item_field]
        )
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(ends)], 0, 0, [pairs])
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0)


def _text(pa: Any, part: tuple[int, Any, Any, Any]) -> Any:
    _, _, ends, data = part
    return pa.Array.from_buffers(
        pa.string(), len(ends) // 4 - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)], 0
    )


def filter_rows(batch: pa.RecordBatch, keep: list[bool]) -> pa.RecordBatch:
    """The rows of a batch of `to_batch` for which `keep` is true."""
    pa = arrow()
    mask = pa.array(keep, pa.bool_())
    at = batch.schema.get_field_index("body")
    if at < 0 or batch.schema.types[at] == pa.binary():
        return batch.filter(mask)
    # Arrow filters no views; but a view by itself is 16 bytes.
    valid, views, *sources = batch.column(at).buffers()
    kind, plain = batch.schema.types[at], pa.binary(_VIEW_SIZE)
    bodies = pa.Array.from_buffers(plain, batch.num_rows, [valid, views])
    found = batch.set_column(at, pa.field("body", plain), bodies).filter(mask)
    valid, views = found.column(at).buffers()
    bodies = pa.Array.from_buffers(kind, found.num_rows, [valid, views, *sources])
    return found.set_column(at, pa.field("body", kind), bodies)


class LogScan:
    """Iterates over the records of one commit-log file as batches of columns.

    `memory` is the file, or its written part, and `base` the log offset of its first byte. The scan
    reads records that begin at log offsets in [`start`, `stop`). `stop` is the log's end or the
    start of another reader's part, by default the end of `memory`. A record must begin at `start`;
    with `resynchronise` the scan searches for the first one from there on (magic, physical offset,
    body). A batch has at most `max_rows` rows and `max_bytes` bytes of the log (at most
    MOST_BYTES), with decompressed bodies at their full length, but always one record. With
    `raw_bodies` no body is decompressed.

    Zeros up to the end of `memory` are the log's end. Without `zeros_end` they are damage; a caller
    says so if it knows that records reach up to `stop`. All other bytes that are no record are
    damage, and with `check_crc` so are bodies that fail their BODYCRC. At damage the iterator
    yields the good records before, then raises CorruptRange. With `skip_damage` it continues
    behind, and appends (start, end) offsets to `damage`. `position` is the offset behind the last
    record, or that of the damage.

    Raises ValueError for a `start` outside the file, an unknown column, or limits below 1.
    """

    def __init__(
        self,
        memory: Buffer,
        base: int,
        start: int | None = None,
        stop: int | None = None,
        *,
        columns: Iterable[str] = COLUMNS,
        check_crc: bool = False,
        skip_damage: bool = False,
        resynchronise: bool = False,
        zeros_end: bool = True,
        max_rows: int = 1 << 16,
        max_bytes: int = 64 << 20,
        raw_bodies: bool = False,
    ) -> None:
        self._raw_bodies = raw_bodies
        self._memory = memoryview(memory).cast("B")
        self._base = base
        size = len(self._memory)
        self.position = base if start is None else start
        self._stop = base + size if stop is None else min(stop, base + size)
        if not base <= self.position <= base + size:
            raise ValueError(
                f"start {self.position} is not in the file's offsets {base} to {base + size}"
            )
        if max_rows < 1 or max_bytes < 1:
            raise ValueError(f"{max_rows} rows, {max_bytes} bytes: a batch has at least one")
        self._columns = tuple(columns)
        self._mask = mask_of(self._columns)
        self._check_crc = check_crc
        self._skip_damage = skip_damage
        self._resynchronise = resynchronise
        self._zeros_end = zeros_end
        self._max_rows = max_rows
        self._max_bytes = min(max_bytes, MOST_BYTES)
        self.damage: list[tuple[int, int]] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._resynchronise:
            self.position = self._next_record(self.position)
            self._resynchronise = False
        why = FULL
        while why in (FULL, BAD_LENGTHS, BAD_CRC, BAD_OFFSET, NOTHING):
            if self.position >= self._stop:
                return
            filled = Columns(self._mask, self._raw_bodies)
            why = self._fill(filled)
            if filled.rows:
                yield to_batch(filled, self._columns)
            if why not in (FULL, END_OF_FILE):
                self._pass_damage(why)

    def _fill(self, filled: Columns) -> int:
        position, why = filled.scan(
            self._memory,
            self.position - self._base,
            self._base,
            self._stop - self._base,
            self._max_rows,
            self._max_bytes,
            self._check_crc,
        )
        self.position = self._base + position
        return why

    def _pass_damage(self, why: int) -> None:
        """Moves `position` behind zeros or damage. Raises CorruptRange for damage that is not to be
        skipped.
        """
        if self.position >= self._stop:
            return
        end = self._next_record(self.position + 1)
        at = self.position - self._base
        is_end = self._zeros_end and why == NOTHING and end >= self._stop
        if is_end and not _any(self._memory[at:]):
            self.position = self._stop
            return
        if not self._skip_damage:
            raise CorruptRange(self.position, end)
        self.damage.append((self.position, end))
        self.position = end

    def _next_record(self, offset: int) -> int:
        """The offset of the next whole record with a good body; `stop` if there is none before."""
        found, _ = find_record(self._memory, offset - self._base, self._base, -(1 << 63))
        return self._stop if found < 0 else min(self._base + found, self._stop)


def _any(memory: memoryview) -> bool:
    """Whether any byte is not zero. It copies one MiB at a time."""
    return any(
        memory[at : at + (1 << 20)].tobytes().strip(b"\0") for at in range(0, len(memory), 1 << 20)
    )
