"""With a pool a record is in the log before it is in a file, for as long as commit needs."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.harness import StoreProcess, eventually
from support.transaction_load import INTERVAL_MS, QUICK, TIMEOUT_MS

from silomq import Consumer, TransactionProducer

if TYPE_CHECKING:
    from pathlib import Path

    from silomq import CheckedMessage


@pytest.mark.parametrize("decided", [False, True], ids=["decided later", "decided meanwhile"])
def test_a_half_that_waits_in_the_pool_is_not_lost(tmp_path: Path, *, decided: bool) -> None:
    """The store puts a half once more with each check. The next check reads what it has put."""
    asked: list[int] = []

    def check(message: CheckedMessage) -> bool | None:
        asked.append(message.checks)
        return None

    settings = {**QUICK, "transient_store_pool_enable": "true"}
    with (
        StoreProcess(tmp_path / "store", **settings) as store,
        TransactionProducer(store.path, "g", check=check) as producer,
    ):
        transaction = producer.begin("t", b"x")
        eventually(lambda: asked, "it is asked")
        store.kill("commit", signal.SIGSTOP)
        if decided:
            transaction.commit()
        time.sleep(4 * (TIMEOUT_MS + INTERVAL_MS) / 1000)  # some checks are due
        store.kill("commit", signal.SIGCONT)
        if not decided:
            transaction.commit()
        with Consumer(store.path, "t", offset="earliest") as consumer:
            (message,) = consumer.poll(1, 30.0)
            assert message.body == b"x"
        assert "is lost" not in store.log()
