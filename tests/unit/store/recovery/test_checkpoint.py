"""RocketMQ's checkpoint file."""

from __future__ import annotations

from pathlib import Path

from silomq.store.disk.files import Folder
from silomq.store.recovery import checkpoint
from silomq.store.recovery.checkpoint import Checkpoint


def test_checkpoint_there_and_back(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as root:
        assert checkpoint.read(root) is None
        written = Checkpoint(1_700_000_000_123, 1_700_000_000_456, 3, 4, 5)
        checkpoint.write(root, written)
        data = (tmp_path / "checkpoint").read_bytes()
        assert len(data) == 4096
        assert data[:8] == (1_700_000_000_123).to_bytes(8, "big")
        assert checkpoint.read(root) == written
        assert written.safe_time_ms == 1_700_000_000_123 - 3000
        assert Checkpoint().safe_time_ms == 0
        (tmp_path / "checkpoint").write_bytes(data[:30])
        assert checkpoint.read(root) is None
