"""RocketMQ opens a backup of a running store, finds every message, and goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import RocketMQ, require
from interop.test_exchange import SETTINGS
from support.backups import back_up, check_sound, send
from support.harness import LONG, StoreProcess
from support.small_settings import SMALL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("release", [pytest.param("5.3.3", marks=LONG), "4.9.8"])
def test_rocketmq_continues_a_backup(tmp_path: Path, release: str) -> None:
    require(release)
    settings = {**SMALL, **SETTINGS}
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        send(store.path, 0, 3000)
        backup = back_up(store.path, tmp_path / "backups", "--copy")
        send(store.path, 3000, 10)
    RocketMQ(release, tmp_path, settings).run(backup, "start", "append", 200, 0, "stop")
    assert check_sound(backup) == 3200
