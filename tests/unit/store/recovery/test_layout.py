"""`silomq/layout`: a store remembers the sizes of its files, and refuses others."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.small_settings import ROLLING, load

from silomq.conf.settings import SettingError
from silomq.conf.settings import load as load_settings
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.store.disk.paths import StoreFolders
from silomq.store.errors import Corrupt, StoreError
from silomq.store.recovery.apply import apply
from silomq.store.recovery.layout import (
    Layout,
    check_layout,
    known_sizes,
    layout_of,
    note_layout,
    read_layout,
)
from silomq.store.recovery.look import look
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {
    "mapped_file_size_commit_log": 1 << 17,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 200,
    "max_index_num": 600,
}


def noted(path: Path, text: str) -> Layout | None:
    with StoreFolders(path, create=True) as folders:
        (path / "silomq" / "layout").write_text(text)
        return read_layout(folders.ours)


def start(path: Path) -> None:
    settings, plan = load(path, ROLLING), Plan(max_topics=8, max_queues=40, max_sessions=1)
    table = TopicTable.create(bytearray(plan.size), plan)
    with StoreFolders(path, create=True) as folders:
        apply(look(folders, settings), folders, settings, Control(bytearray(SIZE), STARTUP), table)


def make_file(path: Path, name: str, size: int) -> None:
    file = path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        out.truncate(size)


def test_a_layout_is_read_as_it_was_written(tmp_path: Path) -> None:
    with StoreFolders(tmp_path, create=True) as folders:
        assert read_layout(folders.ours) is None
        layout = layout_of(load(tmp_path, ROLLING), None)
        note_layout(folders, layout)
        assert read_layout(folders.ours) == layout == Layout(2, SIZES)


def test_the_first_version_has_no_sizes(tmp_path: Path) -> None:
    assert noted(tmp_path, "1\n") == Layout(1, {})


def test_a_newer_version_is_refused_whatever_else_it_says(tmp_path: Path) -> None:
    for text in ("3\n", "version = 3\nsomething = [1, 2]\n"):
        with pytest.raises(StoreError, match=r"version 3: a newer SiloMQ made the store"):
            noted(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "version = true",
        "version = 0",
        "version = 2\nmax_index_num = '5'",
        "version = 2\nmax_index_num = -5",
        "version = 2\nunknown = 5",
        "\0" * 80,
        "9" * 4000,
    ],
)
def test_a_damaged_layout_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Corrupt, match=r"silomq/layout.* not a layout"):
        noted(tmp_path, text)


def test_a_flipped_bit_gives_no_other_sizes(tmp_path: Path) -> None:
    with StoreFolders(tmp_path, create=True) as folders:
        note_layout(folders, Layout(2, SIZES))
    path = tmp_path / "silomq" / "layout"
    whole, refused = path.read_bytes(), 0
    for at in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        path.write_bytes(damaged)
        with StoreFolders(tmp_path) as folders:
            try:
                assert read_layout(folders.ours) == Layout(2, SIZES)
            except Corrupt:
                refused += 1
    assert refused > len(whole) * 7


def test_a_layout_without_a_crc_is_believed(tmp_path: Path) -> None:
    assert noted(tmp_path, "version = 2\nmax_index_num = 5\n") == Layout(2, {"max_index_num": 5})


def test_sizes_count_while_there_are_files_of_their_kind(tmp_path: Path) -> None:
    """A store without index files may get an index of another size."""
    settings = load(tmp_path, ROLLING)
    other = load(tmp_path, {**ROLLING, "max_index_num": 700})
    with StoreFolders(tmp_path, create=True) as folders:
        note_layout(folders, layout_of(settings, None))
        assert known_sizes(tmp_path) == ({}, True)
        check_layout(folders, other)
        make_file(tmp_path, "index/20261122000000000", 100)
        assert known_sizes(tmp_path).values == {"max_hash_slot_num": 200, "max_index_num": 600}
        with pytest.raises(StoreError, match=r"made with max_index_num = 600.* say 700"):
            check_layout(folders, other)
        make_file(tmp_path, "commitlog/" + "0" * 20, 1 << 17)
        make_file(tmp_path, "consumequeue/t/0/" + "0" * 20, 2000)
        assert known_sizes(tmp_path) == (SIZES, True)


def test_sizes_of_the_index_stay_while_the_store_keeps_none(tmp_path: Path) -> None:
    without = load(tmp_path, {**ROLLING, "message_index_enable": "false", "max_index_num": 700})
    before = layout_of(load(tmp_path, ROLLING), None)
    assert layout_of(without, before) == before
    assert "max_index_num" not in layout_of(without, None).sizes


def test_sizes_are_read_off_the_files_of_a_store_without_layout(tmp_path: Path) -> None:
    """The names of two neighbours count, not the length of a file that may have been cut short."""
    assert known_sizes(tmp_path / "nowhere") == ({}, False)
    make_file(tmp_path, "commitlog/" + "0" * 20, 5000)
    assert known_sizes(tmp_path) == ({}, False)
    make_file(tmp_path, f"commitlog/{1 << 20:020d}", 1 << 20)
    make_file(tmp_path, "consumequeue/t/0/" + "0" * 20, 4000)
    sizes = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 4000}
    assert known_sizes(tmp_path) == (sizes, False)
    make_file(tmp_path, f"consumequeue/t/1/{6000:020d}", 6000)
    make_file(tmp_path, f"consumequeue/t/1/{12000:020d}", 6000)
    assert known_sizes(tmp_path).values["mapped_file_size_consume_queue"] == 6000


def test_settings_take_the_sizes_of_the_store(tmp_path: Path) -> None:
    """A given size must agree with what the layout says; it overrides what was read off."""
    make_file(tmp_path, "commitlog/" + "0" * 20, 1 << 17)
    make_file(tmp_path, f"commitlog/{1 << 17:020d}", 1 << 17)
    name = "mapped_file_size_commit_log"

    def size(*given: str) -> object:
        overrides = [f"store_path={tmp_path}", *given]
        return getattr(load_settings(environ={}, overrides=overrides, remembered=known_sizes), name)

    assert size() == 1 << 17
    assert size(f"{name}=1MiB") == 1 << 20
    with StoreFolders(tmp_path, create=True) as folders:
        note_layout(folders, Layout(2, SIZES))
    assert size() == size(f"{name}=128KiB") == 1 << 17
    with pytest.raises(SettingError, match=r"1048576 .* is not allowed: the store was made with"):
        size(f"{name}=1MiB")


def test_a_start_notes_sizes_once_and_moves_on_from_the_first_version(tmp_path: Path) -> None:
    start(tmp_path)
    layout = tmp_path / "silomq" / "layout"
    assert layout.read_text().startswith("version = 2\nmapped_file_size_commit_log = 131072\n")
    shutil.copy2(layout, tmp_path / "before")
    start(tmp_path)
    assert layout.stat().st_mtime_ns == (tmp_path / "before").stat().st_mtime_ns
    layout.write_text("1\n")
    start(tmp_path)
    assert layout.read_text() == (tmp_path / "before").read_text()
