"""Every bad file gets one sentence with its name and the place of what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from support.bench_results import result, rich_result, run, write

from silomq.bench.harness.results import file
from silomq.bench.harness.results.file import BadResult, check, load, readable, write_whole

if TYPE_CHECKING:
    from pathlib import Path

GOOD = msgspec.json.encode(rich_result())


def changed(**changes: Any) -> bytes:
    return msgspec.json.encode({**msgspec.to_builtins(result([run()])), **changes})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    made = rich_result()
    assert load(write(made, tmp_path / "a.json")) == made


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (GOOD[:-100], "truncated"),
        (GOOD[: len(GOOD) // 2], "truncated"),
        (b"\x1f\x8b\x08\x00", "byte 0"),
        (b"PK\x03\x04", "byte 0"),
        (b'{"workload":{"a":' + b"[" * 100_000, "nested too deeply"),
        (b'{"name": "\xff"}', "not UTF-8"),
        (GOOD.replace(b"A CPU", b"\xe9 CPU"), "not UTF-8"),
        (b"{}", "missing required field `format`"),
        (b"[1, 2]", "got `array`"),
        (changed(format=2), "format 2"),
        (changed(runs=[{}]), r"\$\.runs\[0\]"),
        (changed(runs=[1]), r"\$\.runs\[0\]"),
        (changed(workload={"rate": 1e300}), r"1e\+300 .* at `\$\.workload\.rate"),
        (GOOD.replace(b'"time":[0.0,1.0', b'"time":[1.0,0.0'), r"runs\[0\]\.series\.time"),
        (GOOD.replace(b'"time":[0.0,', b'"time":['), r"20 values for 19 .*columns\."),
        (GOOD.replace(b'"durability":2', b'"durability":4'), "durability"),
        (GOOD.replace(b'"count":2000', b'"count":1999', 1), r"latency\.\w+\.count"),
        (GOOD.replace(b'"histogram":"HISTF', b'"histogram":"AISTF', 1), r"\.histogram"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(BadResult, match=why) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert len(text) < 400
    assert text.isprintable()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match=r"none\.json: No such file"):
        load(tmp_path / "none.json")
    with pytest.raises(BadResult, match="Is a directory"):
        load(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as out:
        out.truncate(file.MOST + 1)
    with pytest.raises(BadResult, match="more than 64 MiB"):
        load(path)


def test_nan_is_no_figure() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"runs\[0\]\.publish_rate"):
        check(result([run(publish_rate=float("nan"))]))


def test_a_write_that_fails_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")

    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"old"


def test_a_file_of_results_can_be_read_by_people(tmp_path: Path) -> None:
    made = rich_result()
    path = tmp_path / "result.json"
    path.write_bytes(readable(made))
    assert load(path) == made
    lines = path.read_text().splitlines()
    times = [line.strip() for line in lines if '"time"' in line]
    assert times[0].startswith('"time": [0.0,1.0,2.0,')
    # A column is a line: not a line for each second of each column.
    assert len(lines) < 100 * len(made.runs) + 100
    assert lines[1] == f' "format": {made.format},'
