"""Store files to Arrow: records of the log as columns, without a Python object for any of them.

pyarrow is optional (`pip install 'silomq[arrow]'`). Columns, of which only those asked for cost
anything:

===================  ==================  =========================================================
column               type                meaning
===================  ==================  =========================================================
topic                string
queue_id             int32
queue_offset         int64               index in the queue
physical_offset      int64               address of the record in the log
store_timestamp      timestamp[ms, UTC]  time of the append
born_timestamp       timestamp[ms, UTC]  the client's time
tags                 string              TAGS; null without
keys                 list<string>        KEYS, split at spaces; empty without
properties           map<string,string>  all of them; of a name that occurs twice the last value
body                 binary              as it is in the log: a compressed one stays compressed
size                 int32               bytes of the whole record
sys_flag             int32               bits, see `record.SYS_*`
flag                 int32               the application's
body_crc             int32               CRC-32 of the body without its top bit
reconsume_times      int32               how often consuming it failed
born_host            string              the client, ADDRESS:PORT or [IPV6]:PORT
store_host           string              the store, in the same form
message_id           string              UNIQ_KEY, the id that the client gave; null without
===================  ==================  =========================================================

Text that is not UTF-8 gets U+FFFD in its place: what others stored must not stop a job.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from ..commitlog._scan import find_record
from ..errors import CorruptRange
from ._columns import BAD_CRC, BAD_LENGTHS, BAD_OFFSET, END_OF_FILE, FULL, NOTHING, Columns

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

#: The name of a column: what `columns=` of `poll_arrow` takes.
ColumnName: TypeAlias = Literal[
    "topic", "queue_id", "queue_offset", "physical_offset", "store_timestamp", "born_timestamp",
    "tags", "keys", "properties", "body", "size", "sys_flag", "flag", "body_crc",
    "reconsume_times", "born_host", "store_host", "message_id",
]  # fmt: skip
#: All columns, in the order of the kernel's numbers (`COL_*` in columns.h).
COLUMNS: Final[tuple[ColumnName, ...]] = get_args(ColumnName)
_LONG = ("queue_offset", "physical_offset")
_TIME = ("store_timestamp", "born_timestamp")
_TEXT = ("topic", "tags", "born_host", "store_host", "message_id")
_ELEMENTS, _NAMES, _VALUES = -1, -2, -3
#: Of one batch: with three times as many bytes of text, offsets still fit into 31 bits.
MOST_BYTES = 1 << 29


def arrow() -> Any:
    """The pyarrow module. Raises ImportError that says how to get it."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            "columns need pyarrow, which is not installed: pip install 'silomq[arrow]'"
        ) from error
    return pa


def mask_of(columns: Iterable[str]) -> int:
    """The kernel's bits for names of columns. Raises ValueError for an unknown one."""
    mask = 0
    for name in columns:
        if name not in COLUMNS:
            raise ValueError(f"no column {name!r}; there are: {', '.join(COLUMNS)}")
        mask |= 1 << COLUMNS.index(name)
    return mask


def schema(columns: Iterable[str] = COLUMNS) -> pa.Schema:
    """The schema of batches with these columns, in their order."""
    names = tuple(columns)
    mask_of(names)
    return _schema(names)


@functools.cache
def _schema(names: tuple[str, ...]) -> Any:
    return arrow().schema([(name, _type(name)) for name in names])


@functools.cache
def _type(name: str) -> Any:
    pa = arrow()
    if name in _TEXT:
        return pa.string()
    if name in _LONG:
        return pa.int64()
    if name in _TIME:
        return pa.timestamp("ms", "UTC")
    special = {
        "body": pa.binary(),
        "keys": pa.list_(pa.string()),
        "properties": pa.map_(pa.string(), pa.string()),
    }
    return special.get(name, pa.int32())


def to_batch(filled: Columns, columns: tuple[str, ...] = COLUMNS) -> pa.RecordBatch:
    """What the kernel was filled with, and gives away, as columns in this order."""
    pa = arrow()
    rows = filled.rows
    parts = filled.parts()
    arrays = [_array(pa, name, rows, parts) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(columns))


def _array(pa: Any, name: str, rows: int, parts: dict[int, Any]) -> Any:
    nulls, valid, ends, data = parts[COLUMNS.index(name)]
    kind = _type(name)
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


class LogScan:
    """Iterates over the records of one commit-log file as batches of columns.

    `memory` is the file (or the part of it that is written) and `base` the log offset of its first
    byte. Records that begin in [`start`, `stop`), offsets in the log, are read; `stop` is where the
    log is known to end, or another reader goes on, by default the end of `memory`. With
    `resynchronise` the first record is looked for from `start` on (magic, physical offset, body),
    otherwise one must begin there. A batch ends with `max_rows`, or with the record before
    `max_bytes` of the log are exceeded (at most MOST_BYTES).

    Zeros up to the end are the log's end, without `zeros_end` damage as well, for who knows that
    there are records up to the stop. Everything else that is no record is damage: CorruptRange
    is raised at it, after the batch with what is good before; with `skip_damage` it is passed over,
    and noted in `damage` as (start, end) offsets. With `check_crc` a body that fails its BODYCRC is
    damage, too. `position` is the offset behind what was read, or of the damage.
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
    ) -> None:
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
            filled = Columns(self._mask)
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
        """Goes on behind what is no record; raises CorruptRange unless that is to be skipped."""
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
        """Where the next whole record with a good body begins, below the stop; the stop without."""
        found, _ = find_record(self._memory, offset - self._base, self._base, -(1 << 63))
        return self._stop if found < 0 else min(self._base + found, self._stop)


def _any(memory: memoryview) -> bool:
    """Whether any byte is not zero; looks at a mebibyte at a time."""
    return any(
        memory[at : at + (1 << 20)].tobytes().strip(b"\0") for at in range(0, len(memory), 1 << 20)
    )
