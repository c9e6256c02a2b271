"""The bytes of the progress record, and which of its two slots counts."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import crc32c
import pytest
from msgspec.structs import replace

from silomq.shm.progress import IndexProgress, Progress
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import PROGRESS
from silomq.store.recovery import durable_progress
from silomq.store.recovery.checkpoint import Checkpoint
from silomq.store.recovery.durable_progress import DurableProgress, ProgressFile

if TYPE_CHECKING:
    from pathlib import Path

INDEX = IndexProgress(20240102030405678, 17, 9, 1000, 2000, 300, 400)
RECORD = DurableProgress(
    flushed=5000,
    clean=True,
    progress=Progress(4000, 77, INDEX),
    store_time_ms=1234,
    physic=21,
    logics=22,
    index=23,
)


def test_the_bytes_of_a_slot() -> None:
    words = (5000, 1, 4000, 77, 20240102030405678, 17, 9, 1000, 2000, 300, 400, 1234, 21, 22, 23)
    body = b"SILOPRG1" + struct.pack("<16Q", 8, *words)
    data = durable_progress.encode(RECORD, 8)
    assert data == body + struct.pack("<Q", crc32c.crc32c(body))
    assert durable_progress.decode(data) == (8, RECORD)


@pytest.mark.parametrize("at", [0, 8, 16, 70, 135, 136, 143])
def test_a_changed_byte_makes_a_slot_none(at: int) -> None:
    data = bytearray(durable_progress.encode(RECORD, 8))
    data[at] ^= 1
    assert durable_progress.decode(bytes(data)) is None
    assert durable_progress.decode(bytes(data)[:at]) is None


def test_the_newest_whole_slot_counts(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as ours:
        assert durable_progress.read(ours) is None
        for flushed in range(5):
            # Each time a new writer, as after a restart of flush.
            ProgressFile(ours).write(replace(RECORD, flushed=flushed))
            assert durable_progress.read(ours) == replace(RECORD, flushed=flushed)
        data = bytearray((tmp_path / PROGRESS).read_bytes())
        data[durable_progress.SLOT_SIZE * (5 % 2)] ^= 1
        (tmp_path / PROGRESS).write_bytes(data)
        assert durable_progress.read(ours) == replace(RECORD, flushed=3)


@pytest.mark.parametrize(
    ("noted", "same"),
    [
        (Checkpoint(21, 22, 23, 0, 5000), True),
        (Checkpoint(21, 22, 23, 9, 1), True),
        (Checkpoint(20, 22, 23), False),
        (Checkpoint(21, 23, 23), False),
        (Checkpoint(21, 22, 24), False),
        (Checkpoint(), False),
    ],
)
def test_a_checkpoint_of_another_program_is_noticed(noted: Checkpoint, *, same: bool) -> None:
    assert RECORD.agrees_with(noted) is same


def test_a_flush_that_was_killed_before_the_checkpoint_is_no_other_program(tmp_path: Path) -> None:
    """It writes the record first: the checkpoint is still that of the slot before."""
    with Folder.open(tmp_path) as ours:
        assert not durable_progress.agrees(ours, Checkpoint(21, 22, 23))
        ProgressFile(ours).write(RECORD)
        ProgressFile(ours).write(replace(RECORD, physic=31, logics=32, index=33))
        assert durable_progress.agrees(ours, Checkpoint(31, 32, 33))
        assert durable_progress.agrees(ours, Checkpoint(21, 22, 23))
        assert not durable_progress.agrees(ours, Checkpoint(21, 22, 33))
        assert not durable_progress.agrees(ours, None)
        ProgressFile(ours).write(replace(RECORD, physic=41, logics=42, index=43))
        assert not durable_progress.agrees(ours, Checkpoint(21, 22, 23)), "two slots, not more"


def test_a_missing_checkpoint_is_explained_by_the_newest_record_alone(tmp_path: Path) -> None:
    none = replace(RECORD, physic=0, logics=0, index=0)
    with Folder.open(tmp_path) as ours:
        ProgressFile(ours).write(none)
        assert durable_progress.agrees(ours, None)
        ProgressFile(ours).write(RECORD)
        assert not durable_progress.agrees(ours, None)
