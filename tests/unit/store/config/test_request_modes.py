"""The file of request modes: RocketMQ's schema, and what makes no sense."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from silomq.store.config import request_modes
from silomq.store.errors import Corrupt

if TYPE_CHECKING:
    from pathlib import Path

MODES = {("orders", "g"): ("POP", 3), ("orders", "h"): ("PULL", 0), ("other", "g"): ("POP", 0)}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / request_modes.MODES_FILE
    assert request_modes.load(path)[0] == {}
    request_modes.save(path, MODES)
    assert request_modes.load(path)[0] == MODES
    entry = json.loads(path.read_text())["messageRequestModeMap"]["orders"]["g"]
    assert entry == {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 3, "topic": "orders"}


@pytest.mark.parametrize(
    "bad",
    [{"mode": "PUSH"}, {}, None, 7, {"mode": "POP", "popShareQueueNum": -1}, {"mode": ["POP"]}],
)
def test_an_entry_that_makes_no_sense_is_left_out(tmp_path: Path, bad: object) -> None:
    path = tmp_path / request_modes.MODES_FILE
    good = {"mode": "POP", "popShareQueueNum": 0}
    path.write_text(json.dumps({"messageRequestModeMap": {"t": {"g": good, "h": bad}}}))
    modes, report = request_modes.load(path)
    assert modes == {("t", "g"): ("POP", 0)}
    assert report.problem


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / request_modes.MODES_FILE
    path.write_text('{"other": 1}')
    with pytest.raises(Corrupt):
        request_modes.load(path)
