"""delayOffset.json, in RocketMQ's dialect."""

from __future__ import annotations

from pathlib import Path

import pytest

from silomq.store.config import delay_offsets


def test_delay_offsets_in_rocketmqs_dialect(tmp_path: Path) -> None:
    path = tmp_path / "delayOffset.json"
    assert delay_offsets.load(path)[0] == {}
    offsets = list(range(18))
    delay_offsets.save(path, offsets, 1700000000000, 3)
    assert "\t\t1:0,\n\t\t2:1," in path.read_text()
    assert delay_offsets.load(path)[0] == {level + 1: n for level, n in enumerate(offsets)}
    # 4.4.0 writes no dataVersion.
    assert delay_offsets.parse('{\n\t"offsetTable":{\n\t\t1:57,\n\t\t2:4\n\t}\n}').value == {
        1: 57,
        2: 4,
    }


@pytest.mark.parametrize(
    ("text", "source", "found"),
    [
        ("{}", "backup", {1: 1}),
        ("[]", "backup", {1: 1}),
        ('{"offsetTable":{1:-1}}', "main", {1: 1}),
        ('{"offsetTable":{1:"5",2:7}}', "main", {1: 1, 2: 7}),
        ('{"offsetTable":{"x":5,2:9223372036854775808}}', "main", {1: 1}),
    ],
)
def test_what_is_bad_comes_from_the_backup(
    tmp_path: Path, text: str, source: str, found: dict[int, int]
) -> None:
    path = tmp_path / "delayOffset.json"
    delay_offsets.save(path, [1], 1, 1)
    delay_offsets.save(path, [2], 2, 2)
    path.write_text(text)
    offsets, report = delay_offsets.load(path)
    assert (offsets, report.source, report.main_is_good) == (found, source, False)
    assert report.problem
