"""The state of one supervisor, packed for the next one, and taken over by it (`new_code.py`)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import cast

from .broker import Broker
from .changes import Changes, RunningChange
from .child import Child
from .children import Children
from .handover import (
    HandedChange,
    HandedChild,
    HandedMail,
    HandedStore,
    Passed,
    SessionMessage,
    pack_world,
)
from .live_settings import SettingsSource
from .signalled import Signalled


def pack_store(
    children: Children,
    broker: Broker,
    source: SettingsSource,
    signalled: Signalled,
    change: RunningChange,
    *,
    lock: int,
    keeps_code: str,
    stalls_ms: dict[str, float],
    kept: Sequence[int],
) -> tuple[HandedStore, list[int]]:
    """All that a supervisor has, in the middle of a `change` of code, and its descriptors."""
    passed = Passed()
    handed = HandedStore(
        world=pack_world(children.world, passed, "supervisor"),
        lock=passed.add(lock),
        children=[
            HandedChild(
                *(name, child.pid, child.started),
                setup_s=children.setup_s.get(name, 0.0),
                starts=children.starts[name],
            )
            for name, child in children.running.items()
        ],
        mail=[
            HandedMail(name, cast("SessionMessage", message), [passed.add(fd) for fd in fds])
            for name, box in broker.boxes.items()
            for message, fds in box.waiting
        ],
        change=_pack_change(change, passed),
        changes=[_pack_change(waiting, passed) for waiting in broker.changes.waiting],
        source=source,
        keeps_code=keeps_code,
        hang_up_stops=signalled.hang_up_stops,
        hang_up=signalled.hang_up,
        stalls_ms=stalls_ms,
        since=time.monotonic(),
        kept=[passed.add(page) for page in kept],
    )
    return handed, passed.fds


def _pack_change(change: RunningChange, passed: Passed) -> HandedChange:
    ends = [passed.add(end.fileno()) for end in change.ends]
    return HandedChange(change.asked, change.steps, ends)


def fill(
    children: Children, broker: Broker, handed: HandedStore, fds: Mapping[int, int]
) -> RunningChange:
    """Gives a new supervisor what the one before it had, but for the World. Returns the change of
    code. Raises OSError.
    """
    for child in handed.children:
        children.starts[child.name] = child.starts
        children.setup_s[child.name] = child.setup_s
        pidfd = os.pidfd_open(child.pid)
        children.watch(Child(child.name, child.pid, pidfd, -1, child.started, ready=True))
    for mail in handed.mail:
        broker.boxes[mail.box].put(mail.message, tuple(fds[fd] for fd in mail.fds))
    change = _take_change(broker.changes, handed.change, fds)
    for packed in handed.changes:
        broker.changes.waiting.append(_take_change(broker.changes, packed, fds))
    return change


def _take_change(changes: Changes, packed: HandedChange, fds: Mapping[int, int]) -> RunningChange:
    change = RunningChange(packed.asked)
    change.said += packed.said
    change.ends += [socket.socket(fileno=fds[end]) for end in packed.ends]
    changes.bring(change)
    return change
