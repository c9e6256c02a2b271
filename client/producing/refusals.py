"""Why the store refused a message: the status, and a sentence made from the control block.
`resend.py` says what follows a refusal.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ...shm.control import ACTORS, HEARTBEAT_SIZE, NEEDED, Control, failed_actors
from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus

if TYPE_CHECKING:
    from typing_extensions import Buffer

_APPEND = ACTORS.index("append")


def refusal(status: int, control: Buffer) -> IllegalMessage:
    """The error for an answer other than PUT_OK; `control` is the control block's memory."""
    found = PutMessageStatus(status)
    return IllegalMessage(found, f"the store refused the message{_reason(found, Control(control))}")


def _reason(status: PutMessageStatus, control: Control) -> str:
    """The reason, taken from the control block now: the state that caused the refusal may be
    over.
    """
    if status == PutMessageStatus.SERVICE_NOT_AVAILABLE:
        error = control.load("flush_error")
        if error:
            return (
                f": a sync failed ({os.strerror(error)}) and it takes no more messages; check the "
                "disk, then restart the store"
            )
        lacking = control.load("failed")
        if lacking & NEEDED:
            names = ", ".join(failed_actors(lacking))
            return (
                f": a file of it is missing or damaged, and {names} cannot go on; its log names "
                "the file (silo verify, silo repair)"
            )
        if control.load("disk_flags"):
            words = [control.load(name) for name in ("log_disk_used", "queue_disk_used")]
            used = max((word for word in words if word <= 100), default=100)
            return (
                f": its disk is too full ({used} % used); it takes messages again when there is "
                "space (disk_space_warning_level_ratio)"
            )
        return ": it took none for a moment; send again"
    if status == PutMessageStatus.MESSAGE_ILLEGAL:
        return (
            ": the right to write to the topic was taken back (it was deleted, or its permission "
            "changed), or the record is invalid; the next send asks for the topic again"
        )
    if status == PutMessageStatus.CREATE_MAPPED_FILE_FAILED:
        error = control.load("allocate_error")
        why = f" ({os.strerror(error)})" if error else ""
        return f": it has no next commit-log file{why}; it tries again every second"
    return ""


def while_stuck(control: Control, limit_ms: int) -> IllegalMessage | None:
    """The error for a put while append lacks a file, or has been busy with one batch for more than
    `limit_ms`; None if append works. A page fault that waits for the disk makes it busy.

    Append writes its heartbeat before each slice of 50 ms. While it sleeps, for up to a second, it
    sets `append_asleep`.
    """
    if control.load("failed") >> _APPEND & 1:
        return refusal(PutMessageStatus.SERVICE_NOT_AVAILABLE, control.memory)
    beat = control.word("heartbeat", HEARTBEAT_SIZE * _APPEND).load() // 1_000_000
    stuck_ms = time.monotonic_ns() // 1_000_000 - beat
    if stuck_ms <= limit_ms or control.load("append_asleep"):
        return None
    return IllegalMessage(
        PutMessageStatus.OS_PAGE_CACHE_BUSY,
        f"the store has been busy with one batch for {stuck_ms} ms (os_page_cache_busy_timeout_ms "
        f"= {limit_ms}): the disk is slow; nothing was stored, send again later",
    )
