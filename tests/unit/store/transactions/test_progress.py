"""The slots of the progress of transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silomq.store.disk.files import Folder
from silomq.store.transactions.progress import Progress, ProgressFile, keep_durable_slots

if TYPE_CHECKING:
    from pathlib import Path


def test_a_slot_that_knows_more_than_the_log_does_not_count(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        file = ProgressFile(folder)
        assert file.newest(10**9) is None
        file.make_durable(Progress(100, 1, 2, 3))
        for scan_from in (200, 300, 400):
            file.publish(Progress(scan_from, 4, 5, 6))
        again = ProgressFile(folder)
        assert again.newest(400) == Progress(400, 4, 5, 6)
        assert again.newest(399) == Progress(300, 4, 5, 6)
        assert again.newest(299) == Progress(100, 1, 2, 3)
        assert again.newest(99) is None


def test_only_durable_slots_outlive_the_boot(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        keep_durable_slots(folder)
        assert folder.names() == []
        file = ProgressFile(folder)
        file.make_durable(Progress(100, 1, 2, 3))
        file.publish(Progress(200, 4, 5, 6))
        keep_durable_slots(folder)
        assert ProgressFile(folder).newest(10**9) == Progress(100, 1, 2, 3)
