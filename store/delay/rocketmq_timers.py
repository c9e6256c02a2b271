"""`config/timercheck`: from where RocketMQ 5 goes on with the timers when it takes the store over.

The schedule process writes it with its durable progress, and RocketMQ (`TimerCheckpoint`) while it
runs. Integers are big-endian; the file has 4,096 bytes.

Layout timercheck:

======  ====  ====  ===================  =======
offset  size  type  field                meaning
======  ====  ====  ===================  =======
0       8     i64   last_read_time_ms    the wheel's slots before it are delivered, epoch ms
8       8     i64   timer_log_flush_pos  durable bytes of `timerlog/`
16      8     i64   queue_offset         in the timer topic's queue: the next message to enter
24      8     i64   master_queue_offset  the same; RocketMQ takes the lesser one
32      8     i64   state_version        the number of a controller's term; 0
40      8     i64   timestamp            of the last change, epoch ms
48      8     i64   counter              the number of changes
======  ====  ====  ===================  =======

RocketMQ's own state of waiting timers is `timerwheel` and `timerlog/`: the messages before
`queue_offset`, by their times. They hold nothing that the timer topic does not. After another has
delivered from them they are wrong: RocketMQ would deliver again what the wheel says, and begin
where the timer log ends, whatever the checkpoint says. So they are removed, once a checkpoint is
durable that leads RocketMQ to all messages that wait.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Final

from ..disk import files as disk
from ..disk.paths import StoreFolders

FILE_NAME: Final = "timercheck"
SIZE: Final = 4096
WHEEL: Final = "timerwheel"
LOG: Final = "timerlog"
_PRECISION_MS: Final = 1000
FIELDS: Final = (
    "last_read_time_ms",
    "timer_log_flush_pos",
    "queue_offset",
    "master_queue_offset",
    "state_version",
    "timestamp",
    "counter",
)
_STRUCT: Final = struct.Struct(f">{len(FIELDS)}q")
#: The bytes of the file that hold something.
USED: Final = _STRUCT.size
LAYOUTS: Final = {"timercheck": {name: (8 * i, 8) for i, name in enumerate(FIELDS)}}


def read(folders: StoreFolders) -> dict[str, int]:
    """The checkpoint's fields, zeros without a whole file. Raises OSError."""
    try:
        with folders.config.file(FILE_NAME) as fd:
            data = disk.read_at(fd, _STRUCT.size, 0)
    except FileNotFoundError:
        data = b""
    values = _STRUCT.unpack(data) if len(data) == _STRUCT.size else (0,) * len(FIELDS)
    return dict(zip(FIELDS, values, strict=True))


def lead_to(folders: StoreFolders, queue_offset: int, now_ms: int) -> None:
    """Makes RocketMQ enter all timers from `queue_offset` on, durably: those below are delivered.
    Raises OSError.
    """
    before = read(folders)
    after = before | {
        "last_read_time_ms": now_ms // _PRECISION_MS * _PRECISION_MS,
        "timer_log_flush_pos": 0,
        "queue_offset": queue_offset,
        "master_queue_offset": queue_offset,
        "timestamp": now_ms,
        "counter": before["counter"] + 1,
    }
    with folders.config.file(FILE_NAME, write=True, create=True) as fd:
        disk.allocate(fd, 0, SIZE)
        disk.write_at(fd, _STRUCT.pack(*(after[name] for name in FIELDS)), 0)
        disk.sync_data(fd)
    folders.config.sync()


def has_wheel(folders: StoreFolders) -> bool:
    """Whether RocketMQ has left its state of waiting timers."""
    return folders.root.has(WHEEL) or folders.root.has(LOG)


def remove_wheel(folders: StoreFolders) -> None:
    """Removes RocketMQ's state of waiting timers, durably. The log goes first, because RocketMQ
    makes the wheel anew from it. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        folders.root.remove_tree(LOG)
    with contextlib.suppress(FileNotFoundError):
        folders.root.unlink(WHEEL)
    folders.root.sync()
