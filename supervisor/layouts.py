"""What two releases must have in common so that their processes can run beside one another.

While new code replaces old code, processes of both share memory, files and mail. So all layouts
must be the same, field by field, and so must the messages. Another file format is refused as well:
if the new code does not come up, the old one must be able to read what the new one wrote.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Final

from ..shm import bell, board, control, history, metrics, progress, reads, ring
from ..shm.protocol.requests import PROTOCOL
from ..store.consumequeue import queue
from ..store.delay import delays, rocketmq_timers, timers
from ..store.groups import ack_file, lease_journal
from ..store.index import file
from ..store.record import format as record
from ..store.record import ids
from ..store.recovery import checkpoint, durable_progress, log_begin
from ..store.topics import table_layout
from ..store.transactions import progress as transactions

#: To be raised when the processes of two releases could not work beside one another for a reason
#: that no layout shows: mail or a word of shared memory has another meaning, or the state that a
#: supervisor hands over (`handover.py`) has other fields.
HANDOVER: Final = 2
#: Every module of `shm` and `store` that owns a layout. A test finds those that are missing.
OWNERS: Final[tuple[ModuleType, ...]] = (
    *(bell, board, control, history, metrics, progress, reads, ring),
    *(record, ids, queue, delays, rocketmq_timers, timers, ack_file, lease_journal, file),
    *(checkpoint, durable_progress, log_begin, table_layout, transactions),
)


def marks() -> dict[str, str]:
    """What this release has, by name. Equal values mean that nothing differs."""
    found = {
        "state that is handed over": str(HANDOVER),
        "protocol": str(PROTOCOL),
        "processes": ",".join(control.ACTORS),
    }
    for module in OWNERS:
        name = module.__name__.removeprefix("silomq.")
        for layout, fields in layouts_of(module).items():
            text = json.dumps(sorted(fields.items()))
            found[f"{name}: {layout}"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def layouts_of(module: ModuleType) -> dict[str, Mapping[str, object]]:
    """The layouts that a module defines, by name."""
    if hasattr(module, "LAYOUTS"):
        return dict(module.LAYOUTS)
    return {"layout": module.LAYOUT}


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """The names of what differs, or is missing on one side."""
    names = [*ours, *(name for name in theirs if name not in ours)]
    return [name for name in names if ours.get(name) != theirs.get(name)]
