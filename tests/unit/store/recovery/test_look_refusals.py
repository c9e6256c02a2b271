"""A start that is refused leaves everything as it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.golden_starts import SETTINGS
from support.golden_stores import LOG_FILE_SIZE, unpack
from support.left_stores import plan_of, torn
from support.offline_stores import state
from support.starts import (
    FILE_SIZE,
    made,
    restart,
    settings_of,
)
from support.store_files import Store

from silomq.shm.control import SIZE, Control
from silomq.store.disk.paths import PROGRESS, StoreFolders, file_name
from silomq.store.errors import Corrupt, StoreError
from silomq.store.recovery.apply import apply
from silomq.store.recovery.look import look
from silomq.store.topics.deletions import Deletion, Deletions
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Callable


def damaged(store: Store, path: Path) -> None:
    with store.folders.commit_log.file(file_name(0), write=True) as fd:
        os.pwrite(fd, b"\xff" * 8, store.ends[3])
    (path / "silomq" / PROGRESS).unlink()


def index_of_another_size(store: Store, path: Path) -> None:
    os.truncate(path / "index" / str(store.index.names()[-1]), 100)


def first_index_file_of_another_size(store: Store, path: Path) -> None:
    first, *others = store.index.names()
    assert others
    os.truncate(path / "index" / str(first), 100)


def a_folder_named_like_a_newer_index_file(_store: Store, path: Path) -> None:
    (path / "index" / "20991231235959999").mkdir()


def a_link_named_like_a_newer_index_file(_store: Store, path: Path) -> None:
    (path / "index" / "20991231235959999").symlink_to("elsewhere")


def log_file_of_another_size(store: Store, path: Path) -> None:
    end = store.ends[-1]
    os.truncate(path / "commitlog" / file_name(end - end % FILE_SIZE), 100)


def made_by_a_newer_version(store: Store, path: Path) -> None:
    (path / "silomq" / "layout").write_text("99\n")


def unreadable_topics(store: Store, path: Path) -> None:
    (path / "config" / "topics.json").write_text("{")


def unreadable_deletions(store: Store, path: Path) -> None:
    (path / "silomq" / "deleted").write_text("{")


@pytest.mark.parametrize(
    ("harm", "error", "says"),
    [
        (damaged, Corrupt, "good records go on at offset"),
        (index_of_another_size, StoreError, "max_index_num"),
        (first_index_file_of_another_size, StoreError, "max_index_num"),
        (a_folder_named_like_a_newer_index_file, Corrupt, "20991231235959999.*no regular file"),
        (a_link_named_like_a_newer_index_file, Corrupt, "20991231235959999.*no regular file"),
        (log_file_of_another_size, Corrupt, "has 100 of 6000 bytes.*mapped_file_size_commit_log"),
        (made_by_a_newer_version, StoreError, "newer SiloMQ"),
        (unreadable_topics, Corrupt, "repair one of them"),
        (unreadable_deletions, Corrupt, "repair one of them"),
    ],
)
def test_a_refusal_leaves_everything_as_it_was(
    harm: Callable[[Store, Path], None],
    error: type[Exception],
    says: str,
    tmp_path: Path,
) -> None:
    """Also what a start would have removed or cut off stays."""
    store = made(tmp_path, 28, (20, 60))
    (tmp_path / "consumequeue" / "silomq-new").touch()
    (tmp_path / "silomq" / "allocating-00000000000000006000").touch()
    Deletions(store.folders.ours, {"a": Deletion(store.ends[-1], 3)}).write()
    harm(store, tmp_path)
    before = state(tmp_path)
    for _ in range(2):
        with pytest.raises(error, match=says):
            restart(store)
        assert state(tmp_path) == before


def test_a_table_that_is_too_small_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """The table is filled before anything is done to the files."""
    store = torn(tmp_path)
    (tmp_path / "consumequeue" / "silomq-new").touch()
    before = state(tmp_path)
    small = Plan(max_topics=1, max_queues=1, max_sessions=1)
    table = TopicTable.create(bytearray(small.size), small)
    plan = plan_of(store)
    with pytest.raises(StoreError, match="raise max_"):
        apply(plan, store.folders, settings_of(store), Control(bytearray(SIZE)), table)
    assert state(tmp_path) == before


def test_a_golden_store_with_damage_is_left_alone(tmp_path: Path) -> None:
    golden = unpack("normal", tmp_path)
    victim = sorted(m["commitLogOffset"] for m in golden.of("msg"))[-20]
    base = victim - victim % LOG_FILE_SIZE
    path = golden.path / "commitlog" / file_name(base)
    data = bytearray(path.read_bytes())
    data[victim - base + 90] ^= 0x40
    path.write_bytes(data)
    StoreFolders(golden.path, create=True).close()
    before = state(golden.path)
    with StoreFolders(golden.path) as folders, pytest.raises(Corrupt, match="silo repair"):
        look(folders, SETTINGS)
    assert state(golden.path) == before
