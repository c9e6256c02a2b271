"""Commit publishes only what it has written, also when it cannot write."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from silomq.actors.commit import Commit
from silomq.shm.control import SIZE, Control
from silomq.shm.metrics import SIZE as METRICS_SIZE
from silomq.shm.metrics import Metrics
from silomq.shm.ownership import STARTUP
from silomq.store.commitlog.log import CommitLog
from silomq.store.disk import files as disk
from silomq.store.disk.paths import StoreFolders

if TYPE_CHECKING:
    from pathlib import Path

    from silomq.actors.actor import World

FILE_SIZE = 8192
BUFFERS = [bytearray(b"%d" % i * FILE_SIZE) for i in range(3)]


def commit_of(folders: StoreFolders, control: Control) -> Commit:
    """Commit over a pool in plain memory."""
    made = Commit.__new__(Commit)
    log = CommitLog(folders, FILE_SIZE)
    for base in range(0, 3 * FILE_SIZE, FILE_SIZE):
        log.create(base)
    pool = SimpleNamespace(buffer=lambda base: BUFFERS[base // FILE_SIZE])
    made.log, made.pool = log, cast("Any", pool)
    made.committed = control.own("committed")
    made.commits = Metrics(bytearray(METRICS_SIZE), STARTUP).own_histogram("commit_time")
    made.beat = lambda: None  # type: ignore[method-assign]
    made.world = cast("World", None)
    made.logger = SimpleNamespace(error=lambda *_, **__: None)
    return made


@pytest.mark.parametrize("fails_at", [0, 1, 2, 3])
def test_committed_moves_after_the_bytes_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    control = Control(bytearray(SIZE), STARTUP)
    control.own("committed").store(100)
    real, written = disk.write_at, [100]

    def write(fd: int, data: memoryview, at: int) -> None:
        assert control.load("committed") == written[-1]
        if len(written) > fails_at:
            raise OSError(errno.ENOSPC, "full")
        real(fd, data, at)
        written.append(written[-1] + len(data))

    with StoreFolders(tmp_path, create=True) as folders:
        commit = commit_of(folders, control)
        monkeypatch.setattr(disk, "write_at", write)
        assert commit._commit(2 * FILE_SIZE + 50) == (fails_at == 3)
        assert control.load("committed") == written[-1]
        log = b"".join(path.read_bytes() for path in sorted((tmp_path / "commitlog").iterdir()))
    end = written[-1]
    assert log[:100] == bytes(100)
    assert log[100:end] == b"".join(BUFFERS)[100:end]
    assert not any(log[end:])
