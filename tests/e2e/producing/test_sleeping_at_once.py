"""Append may sleep at once, without spinning: it meets new producers all the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from support.harness import StoreProcess

from silomq import Producer

if TYPE_CHECKING:
    from pathlib import Path


def test_a_store_that_never_spins(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", append_spin_us=0, reput_spin_us=0) as store:
        for turn in range(3):
            with Producer(store.path) as producer:
                for number in range(20):
                    sent = producer.send("t", b"x", queue=0)
                    assert sent.queue_offset == 20 * turn + number
        store.stop()


def test_a_store_that_has_spun_in_vain(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as first:
            for number in range(20):
                time.sleep(0.01)
                assert first.send("t", b"x", queue=0).queue_offset == number
            with Producer(store.path) as second:
                assert second.send("t", b"x", queue=0).queue_offset == 20
        store.stop()
