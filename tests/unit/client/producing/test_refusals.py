"""The sentence that a refused put says, from what the control block says."""

from __future__ import annotations

import errno
import re
import time

import pytest

from silomq import PutMessageStatus
from silomq.client.producing.refusals import refusal, while_stuck
from silomq.shm.control import ACTORS, HEARTBEAT_SIZE, SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.retention.rules import DiskFlag

NOT_NOW = PutMessageStatus.SERVICE_NOT_AVAILABLE
NO_FILE = PutMessageStatus.CREATE_MAPPED_FILE_FAILED


@pytest.mark.parametrize(
    ("status", "words", "said"),
    [
        (NOT_NOW, {}, "send again"),
        (NOT_NOW, {"disk_flags": 16, "log_disk_used": 93, "queue_disk_used": 40}, "93 % used"),
        (NOT_NOW, {"disk_flags": 64, "log_disk_used": 40, "queue_disk_used": 95}, "95 % used"),
        (NOT_NOW, {"flush_error": errno.EIO, "disk_flags": 16}, "Input/output error"),
        (NOT_NOW, {"failed": 0b10010}, "append, reput cannot go on"),
        (NOT_NOW, {"failed": 0b10000000}, "send again"),
        (NO_FILE, {"allocate_error": errno.ENOSPC}, "No space left on device"),
        (NO_FILE, {}, "no next commit-log file; it tries again"),
        (PutMessageStatus.MESSAGE_ILLEGAL, {"disk_flags": 16}, "the store refused the message"),
    ],
)
def test_a_refusal_says_why(status: PutMessageStatus, words: dict[str, int], said: str) -> None:
    control = Control(bytearray(SIZE), STARTUP)
    for name, value in words.items():
        control.own(name).store(value)
    error = refusal(int(status), control.memory)
    assert error.status == status
    assert said in str(error)


def test_a_disk_whose_use_is_not_known_is_not_named() -> None:
    control = Control(bytearray(SIZE), STARTUP)
    control.own("disk_flags").store(DiskFlag.LOGIC_DISK_FULL)
    control.own("log_disk_used").store(2**64 - 1)
    control.own("queue_disk_used").store(91)
    assert "91 % used" in str(refusal(NOT_NOW, control.memory))


@pytest.mark.parametrize(
    ("silent_ms", "asleep", "stuck"),
    [(0, 0, False), (900, 0, False), (1200, 0, True), (1200, 1, False), (60_000, 0, True)],
)
def test_a_stuck_append_is_told_by_its_heartbeat(
    silent_ms: int, asleep: int, *, stuck: bool
) -> None:
    control = Control(bytearray(SIZE), STARTUP)
    beat = control.own("heartbeat", HEARTBEAT_SIZE * ACTORS.index("append"))
    beat.store(time.monotonic_ns() - silent_ms * 1_000_000)
    control.own("append_asleep").store(asleep)
    # The limit may be passed between the two readings of the clock, so it is not approached.
    error = while_stuck(control, 1000 if silent_ms else 10_000)
    assert (error is not None) is stuck
    if error is not None:
        assert error.status == PutMessageStatus.OS_PAGE_CACHE_BUSY
        ms = re.search(r"for (\d+) ms \(os_page_cache_busy_timeout_ms = 1000\)", str(error))
        assert ms is not None
        assert int(ms[1]) >= silent_ms
