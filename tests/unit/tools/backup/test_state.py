"""What a backup copies before the end of its log is chosen, and what after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.store.disk.files import Folder
from silomq.store.topics import deletions, makers
from silomq.tools.backup.copier import Copier
from silomq.tools.backup.state import copy_early, copy_late

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", [makers.FILE_NAME, deletions.FILE_NAME])
def test_what_topics_need_is_copied_late(tmp_path: Path, name: str) -> None:
    """A topic that is made meanwhile has records below the end, and must be known."""
    for folder in ("store", "store/config", "store/silomq", "copy", "copy/config", "copy/silomq"):
        (tmp_path / folder).mkdir()
    source, copy = (tmp_path / folder / "silomq" / name for folder in ("store", "copy"))
    source.write_bytes(b"before")
    with Folder.open(tmp_path / "store") as store, Folder.open(tmp_path / "copy") as target:
        copier = Copier(store, target, links=False)
        copy_early(copier)
        assert not copy.exists()
        source.write_bytes(b"before and after")
        copy_late(copier)
    assert copy.read_bytes() == b"before and after"
