"""One table of settings, read from a file, from variables and from NAME=VALUE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.conf.kinds import Number, SettingError
from silomq.conf.sources import Sources

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {
    "queue_nums": Number("queues", 1, 9, "Some.", "queueNums", "oldQueueNums"),
    "other": Number("queues", 1, 9, "Some."),
}
SOURCES = Sources(KINDS, "X_", lambda key: key != "X_NOT_OURS", "x.toml")


def test_names_of_both_kinds(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("oldQueueNums = 3\n")
    assert SOURCES.file(file) == [("queue_nums", 3, str(file))]
    assert SOURCES.file(None) == []
    found = SOURCES.environment({"X_OTHER": "2", "X_NOT_OURS": "5", "Y": "1"})
    assert found == [("other", 2, "environment X_OTHER")]
    assert SOURCES.overrides(["queueNums = 4", "other=1"])[0] == ("queue_nums", 4, "--set")
    assert SOURCES.knows("queueNums")
    assert not SOURCES.knows("QUEUENUMS")


def test_one_setting_under_two_names(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("queueNums = 3\nqueue_nums = 3\n")
    with pytest.raises(SettingError, match="given twice"):
        SOURCES.file(file)
    (found,) = SOURCES.overrides(["queueNums=3", "queue_nums=4"])
    assert found[1] == 4, "the last option counts"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["que_nums=1"], "did you mean queue_nums or queueNums"),
        (["zzz=1"], "x.toml lists all settings"),
        (["a\nb=1"], r"a\\nb"),
        (["other=10"], "1 to 9"),
        (["other"], "write NAME=VALUE"),
    ],
)
def test_what_is_refused(given: list[str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        SOURCES.overrides(given)


@pytest.mark.parametrize("text", [b"x = ", b"\xff", b"[table]\nx = 1", b"unknown = 1"])
def test_files_that_are_none(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(text)
    with pytest.raises(SettingError):
        SOURCES.file(file)


def test_a_variable_that_is_no_setting() -> None:
    with pytest.raises(SettingError, match="X_OTHER"):
        SOURCES.environment({"X_OTHERS": "1"})
