"""The class archive: found when it is whole, passed over otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silomq.pipeline import classes

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_only_a_whole_archive_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "FOLDER", tmp_path)
    assert classes.options() == []
    archive = tmp_path / "classes-7.jsa"
    archive.write_bytes(b"7 bytes")
    assert classes.options() == [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
    archive.write_bytes(b"half")
    assert classes.options() == []
    (tmp_path / "new.jsa").write_bytes(b"being made")
    assert classes.find() is None
