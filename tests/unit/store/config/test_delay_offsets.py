"""delayOffset.json, in RocketMQ's dialect."""

from __future__ import annotations

from pathlib import Path

import pytest

from silomq.store.config import delay_offsets
from silomq.store.delay.levels import MAX_DELAY_LEVEL


def test_delay_offsets_in_rocketmqs_dialect(tmp_path: Path) -> None:
    path = tmp_path / "delayOffset.json"
    assert delay_offsets.load(path)[0] == {}
    offsets = list(range(MAX_DELAY_LEVEL))
    delay_offsets.save(path, offsets, 1700000000000, 3)
    assert "\t\t1:0,\n\t\t2:1," in path.read_text()
    assert delay_offsets.load(path)[0] == {level + 1: n for level, n in enumerate(offsets)}
    # 4.4.0 writes no dataVersion.
    assert delay_offsets.parse('{\n\t"offsetTable":{\n\t\t1:57,\n\t\t2:4\n\t}\n}') == {1: 57, 2: 4}


@pytest.mark.parametrize("text", ["{}", "[]", '{"offsetTable":{1:-1}}', '{"offsetTable":{1:"5"}}'])
def test_a_bad_file_falls_back(tmp_path: Path, text: str) -> None:
    path = tmp_path / "delayOffset.json"
    delay_offsets.save(path, [1], 1, 1)
    delay_offsets.save(path, [2], 2, 2)
    path.write_text(text)
    offsets, report = delay_offsets.load(path)
    assert (offsets, report.source) == ({1: 1}, "backup")
    assert report.problem
