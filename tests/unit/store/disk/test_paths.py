"""The folders of a store: what is opened is closed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.open_files import nothing_stays_open

from silomq.store.disk.paths import StoreFolders

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_that_lacks_a_folder_leaves_nothing_open(tmp_path: Path) -> None:
    StoreFolders(tmp_path, create=True).close()
    shutil.rmtree(tmp_path / "silomq")
    with nothing_stays_open():
        with pytest.raises(FileNotFoundError):
            StoreFolders(tmp_path)
        (tmp_path / "silomq").touch()
        with pytest.raises(NotADirectoryError):
            StoreFolders(tmp_path, create=True)
