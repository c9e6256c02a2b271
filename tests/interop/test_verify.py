"""`silo verify` has nothing to say about stores that RocketMQ's releases wrote and continued."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import RELEASES, RocketMQ, require
from interop.test_exchange import SETTINGS
from support.harness import LONG
from support.small_settings import SMALL, pairs

from silomq.tools.raw.files import read_settings
from silomq.tools.verify.verify import verify

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "order", [RELEASES[::-1], pytest.param(RELEASES, marks=LONG)], ids=" then ".join
)
def test_a_store_that_two_releases_wrote_is_sound(tmp_path: Path, order: tuple[str, ...]) -> None:
    """They count the used slots of an index file in different ways, and both wrote the same one."""
    settings = {**SMALL, **SETTINGS}
    store = tmp_path / "store"
    records = 0
    for number, release in enumerate(order):
        require(release)
        RocketMQ(release, tmp_path, settings).run(store, "start", "append", 700, number, "stop")
        report = verify(store, read_settings(None, pairs(settings)))
        assert report.findings == []
        records = report.counts["records"]
    assert len(list((store / "index").iterdir())) == 1
    assert records >= 1400
