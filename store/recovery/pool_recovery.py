"""Recovers the bytes that a killed store left in its pool.

The pool's buffers and the control block outlive every process. A start first looks, and changes no
file (`look_in_pool`, `judge`). Then it writes to the log the bytes that append had put into the
pool and commit had not written (`put_into_log`). Then it does all the rest. (RocketMQ's pool is
memory of its one process, and is lost with it.)

**Proof first.** The log may have changed meanwhile: RocketMQ opened the store and appended, a copy
was restored, files were lost. So the bytes are written only if the log provably lacks them:

- RocketMQ has not run: its checkpoint is still the one that this store wrote;
- the log's last whole record, followed by the bytes of the pool, is a row of whole records that
  ends where append had come to;
- each byte of the files in [committed, wrote) is zero or the pool's. A commit that was killed, or
  an earlier start, may have written some of them.

Otherwise the bytes are kept in `recovery/`, and the report says so. The pool's segments stay until
the bytes are in one of these places, also if the start is refused for another reason.
"""

from __future__ import annotations

import os

import msgspec

from ...shm import segments
from ...shm._memory import Mapping
from ...shm.control import SIZE, Control, LayoutError
from ...shm.pool import Pool, count
from ..commitlog import _scan as kernel
from ..commitlog.log import CommitLog
from ..commitlog.log_end import LogEnd, keep_copy, new_folder
from ..disk import files as disk
from ..disk.paths import StoreFolders, file_name
from ..disk.sparse import data_behind
from ..errors import StoreError
from ..pulse import Pulse, unheard

_STEP = 4 << 20


class PoolRest(msgspec.Struct, frozen=True):
    """The bytes [committed, wrote) of the commit log, which only `pool` holds."""

    committed: int
    wrote: int
    pool: Pool

    @property
    def size(self) -> int:
        return self.wrote - self.committed


class PoolPlan(msgspec.Struct, frozen=True):
    """What a start does with the rest of a pool: writes it to the log, or keeps it in `recovery/`
    for the reason `refused`. `end` is the end of the log with the rest.
    """

    rest: PoolRest
    refused: str
    end: LogEnd


def look_in_pool(store_id: int, file_size: int, owner: int = 0) -> PoolRest | None:
    """The bytes of the log that only the pool of a dead store holds, or None. `owner` is the user
    who owns the store's folder. Raises StoreError if the settings do not fit the pool.
    """
    control = old_control(store_id, owner)
    buffers = count(store_id, owner)
    if control is None or not buffers:
        return None
    rest = PoolRest(
        control.load("committed"), control.load("wrote"), Pool(store_id, buffers, file_size)
    )
    if rest.size <= 0:
        return None
    try:
        for base in range(rest.committed - rest.committed % file_size, rest.wrote, file_size):
            rest.pool.buffer(base)
    except OSError as error:
        raise StoreError(
            f"the pool of the killed store holds {rest.size} bytes that are not in the "
            f"commit log yet, but {error}: start once with the settings it ran with"
        ) from error
    return rest


def judge(rest: PoolRest, log: CommitLog, end: LogEnd, *, rocketmq_ran: bool) -> PoolPlan:
    """Whether the log, which ends at `end`, provably lacks the rest. Raises OSError."""
    if rocketmq_ran:
        return PoolPlan(rest, "RocketMQ has had the store since", end)
    foreign = _foreign_byte(rest, log)
    if foreign >= 0:
        return PoolPlan(rest, f"the log holds other bytes at offset {foreign}", end)
    whole = _scan(rest, log, end)
    if whole.end != rest.wrote:
        why = f"the log and these bytes are no row of records at offset {whole.end}"
        return PoolPlan(rest, why, end)
    return PoolPlan(rest, "", whole)


def _foreign_byte(rest: PoolRest, log: CommitLog) -> int:
    """The log offset of a byte in [committed, wrote) of the files that is neither zero nor the
    pool's; -1 if there is none. The first byte counts if committed bytes of its file are missing.
    """
    sizes = log.sizes()
    for start, stop in _pieces(rest, log):
        base = log.base_of(start)
        if sizes.get(base, -1) != log.file_size:
            if base not in sizes and base >= rest.committed:
                continue  # it can be made anew
            return start
        ours = memoryview(rest.pool.buffer(base))
        with log.folders.commit_log.file(file_name(base)) as fd:
            for at, page in data_behind(fd, start - base):
                if at >= stop - base:
                    break
                theirs = page[: stop - base - at]
                if theirs == ours[at : at + len(theirs)]:
                    continue
                for i, byte in enumerate(theirs):
                    if byte not in (0, ours[at + i]):
                        return base + at + i
    return -1


def _pieces(rest: PoolRest, log: CommitLog) -> list[tuple[int, int]]:
    """[committed, wrote) cut at the ends of files."""
    found = []
    start = rest.committed
    while start < rest.wrote:
        stop = min(rest.wrote, log.base_of(start) + log.file_size)
        found.append((start, stop))
        start = stop
    return found


def _scan(rest: PoolRest, log: CommitLog, end: LogEnd) -> LogEnd:
    """The end of the log with the rest behind it, from the end of the log without it on."""
    at, records, newest, why = end.end, end.records, end.newest, end.why
    if at < rest.committed:
        view = memoryview(_record_across(rest, log, at))
        passed, number, stored, why = kernel.scan(view, 0, at, check_crc=True, refuse_torn=True)
        if passed < len(view):
            return LogEnd(at, records, newest, why)
        at, records, newest = at + passed, records + number, max(newest, stored)
    while rest.committed <= at < rest.wrote:
        base = log.base_of(at)
        view = memoryview(rest.pool.buffer(base))[: rest.wrote - base]
        passed, number, stored, why = kernel.scan(
            view, at - base, base, check_crc=True, refuse_torn=True
        )
        at, records, newest = base + passed, records + number, max(newest, stored)
        if why not in (kernel.END_OF_FILE, kernel.FULL):
            break
    return LogEnd(at, records, newest, why)


def _record_across(rest: PoolRest, log: CommitLog, at: int) -> bytes:
    """The bytes of the record that begins in the log at offset `at` and ends in the pool."""
    base = log.base_of(at)
    if log.base_of(rest.committed) != base:
        return b"\0"  # the log ends in an earlier file: it lacks committed bytes
    limit = min(rest.wrote - base, log.file_size)
    data = bytearray(memoryview(log.open(base).mapping)[at - base : rest.committed - base])
    data += memoryview(rest.pool.buffer(base))[rest.committed - base : limit]
    size = int.from_bytes(data[:4], "big")
    return bytes(data[: max(1, size)])


def put_into_log(rest: PoolRest, log: CommitLog, pulse: Pulse = unheard) -> None:
    """Writes the bytes into the commit log, durably. Raises OSError (ENOSPC). The pool does not
    change, so the next start can try again.
    """
    bases = set(log.bases())
    for start, end in _pieces(rest, log):
        base = log.base_of(start)
        if base not in bases:
            log.create(base)
        with log.folders.commit_log.file(file_name(base), write=True) as fd:
            view = memoryview(rest.pool.buffer(base))
            for at in range(start - base, end - base, _STEP):
                pulse(
                    "writing the pool to the commit log (bytes)",
                    base + at - rest.committed,
                    rest.size,
                )
                disk.write_at(fd, view[at : min(at + _STEP, end - base)], at)
            disk.sync_data(fd)


def settle_pool(plan: PoolPlan, folders: StoreFolders, pulse: Pulse = unheard) -> list[str]:
    """Writes the rest into the log, or keeps it in `recovery/`, as planned. Returns the paths of
    the copies, relative to the store's folder. Raises OSError; then the pool is as it was.
    """
    rest = plan.rest
    log = CommitLog(folders, rest.pool.size)
    if not plan.refused:
        put_into_log(rest, log, pulse)
        return []
    into = new_folder(folders.root)
    return [
        keep_copy(
            folders.root,
            into,
            f"pool-{file_name(start)}",
            memoryview(rest.pool.buffer(log.base_of(start)))[
                start - log.base_of(start) : stop - log.base_of(start)
            ],
        )
        for start, stop in _pieces(rest, log)
    ]


def old_control(store_id: int, owner: int = 0) -> Control | None:
    """The control block of a dead store, read-only; None if there is none, it is not valid, or a
    stranger has made it (`open_leftover`).
    """
    fd = segments.open_leftover(store_id, "control", owner)
    if fd is None:
        return None
    try:
        control = Control(Mapping(fd, 0, SIZE, writable=False))
        control.check()
    except (LayoutError, OSError, ValueError):
        return None
    finally:
        os.close(fd)
    return control
