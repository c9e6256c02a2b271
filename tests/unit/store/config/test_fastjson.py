"""fastjson's dialect, and the safe replacement of files."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.config.fastjson import (
    Json,
    Parsed,
    dumps,
    int_keys,
    load_file,
    loads,
    save_file,
)
from silomq.store.disk import files as disk
from silomq.store.errors import Corrupt

if TYPE_CHECKING:
    from pathlib import Path

KEYS = st.text(max_size=6) | st.integers(-(2**63), 2**63 - 1)


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_dialect_round_trip(value: Json) -> None:
    assert loads(dumps(value)) == value


@given(VALUES)
def test_plain_json_is_read_too(value: Json) -> None:
    text = json.dumps(value)
    assert loads(text) == json.loads(text)


def test_both_ways_to_write_integer_keys() -> None:
    text = '{\n\t"offsetTable":{\n\t\t"TopicTest@groupA":{0:5,1:7\n\t\t}\n\t}\n}'
    table = loads(text)
    assert table == {"offsetTable": {"TopicTest@groupA": {0: 5, 1: 7}}}
    assert int_keys({"0": 5, "-1": 7}) == int_keys({0: 5, -1: 7}) == {0: 5, -1: 7}
    assert loads('{"a":"{0:1,2:3}", "\\"{1:" : {7 : 8}}') == {"a": "{0:1,2:3}", '"{1:': {7: 8}}


def test_text_is_written_as_fastjson_writes_it() -> None:
    value = {"b": [1, "x"], "a": {}, "n": None, 3: {"q": '"\n\u2028/'}, "t": True}
    assert dumps(value) == (
        '{\n\t"b":[\n\t\t1,\n\t\t"x"\n\t],\n\t"a":{},\n'
        '\t3:{\n\t\t"q":"\\"\\n\\u2028/"\n\t},\n\t"t":true\n}'
    )


@pytest.mark.parametrize(
    "text", ["", "{", '{"a":NaN}', "[" * 100_000, '"' * 9, '{"a', "{1:}", "{1.5:2}"]
)
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text)


def test_unclosed_strings_do_not_take_quadratic_time() -> None:
    with pytest.raises(ValueError, match=r"."):
        loads('{"' + '\\"' * 500_000)


class CrashError(Exception):
    pass


class CrashingCalls:
    """`os`, but the process dies before its nth call that changes the disk."""

    STEPS = ("open", "ftruncate", "pwrite", "fdatasync", "fsync", "link", "rename", "unlink")

    def __init__(self, calls_left: int) -> None:
        self.calls_left = calls_left

    def __getattr__(self, name: str) -> Any:
        if name not in self.STEPS:
            return getattr(os, name)

        def call(*args: object, **named: object) -> object:
            if self.calls_left == 0:
                raise CrashError
            self.calls_left -= 1
            return getattr(os, name)(*args, **named)

        return call


def identity(text: str, _backup: Parsed[str] | None = None) -> Parsed[str]:
    if text.startswith("bad"):
        raise ValueError(text)
    return Parsed(text)


#: What replacing a file with a backup takes: the folder and the new file opened, made empty,
#: written and synced; a left link removed, the backup linked and renamed, its link removed; the
#: new file renamed, the folder synced.
STEPS_OF_A_SAVE = 11


@pytest.mark.parametrize("calls_left", range(STEPS_OF_A_SAVE + 1))
def test_a_crash_at_any_step_leaves_the_old_or_the_new_file(
    tmp_path: Path, calls_left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    save_file(path, "1")
    save_file(path, "2")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "os", CrashingCalls(calls_left))
        try:
            save_file(path, "3")
            assert calls_left == STEPS_OF_A_SAVE
        except CrashError:
            assert calls_left < STEPS_OF_A_SAVE
    value, report = load_file(path, identity, str)
    assert (report.source, report.problem) == ("main", None)
    assert value in ("2", "3")
    assert (tmp_path / "x.json.bak").read_text() in ("1", "2")
    # And the next write works, whatever was left lying about.
    save_file(path, "4")
    assert path.read_text() == "4"
    assert (tmp_path / "x.json.bak").read_text() == value
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.json", "x.json.bak"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {disk.FILE_MODE}


def test_short_writes_and_full_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(CrashingCalls):
        def pwrite(self, fd: int, data: memoryview, offset: int) -> int:
            if bytes(data).endswith(b"full"):
                raise OSError(errno.ENOSPC, "disk full")
            return os.pwrite(fd, data[:1], offset)

    path = tmp_path / "x"
    monkeypatch.setattr(disk, "os", Slow(99))
    save_file(path, "hello")
    with pytest.raises(OSError, match="disk full"):
        save_file(path, "full")
    assert load_file(path, identity, str)[0] == "hello"


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        save_file(tmp_path / "x", "1")
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize(
    ("main", "backup", "value", "source"),
    [
        ("a", None, "a", "main"),
        ("a", "bad", "a", "main"),
        (None, None, None, "none"),
        ("", None, None, "none"),
        ("\0\0", "", None, "none"),
        (None, "b", "b", "backup"),
        ("", "b", "b", "backup"),
        ("bad", "b", "b", "backup"),
        ("bad", None, None, None),
        ("bad", "bad", None, None),
        (None, "bad", None, None),
    ],
)
def test_where_a_state_is_loaded_from(
    tmp_path: Path, main: str | None, backup: str | None, value: str | None, source: str | None
) -> None:
    path = tmp_path / "x"
    for file, text in ((path, main), (tmp_path / "x.bak", backup)):
        if text is not None:
            file.write_text(text)
    if source is None:
        with pytest.raises(Corrupt, match="repair one of them"):
            load_file(path, identity, str)
        return
    loaded, report = load_file(path, identity, str)
    assert (loaded, report.source) == (value or "", source)
    assert (report.problem is None) == (source == "main" or (main is None and backup is None))
