"""Under SYNC_FLUSH a loop sleeps until messages are durable, and is woken by flush."""

from __future__ import annotations

from typing import Any

import pytest
from support.bells import is_readable
from support.harness import StoreProcess

from silomq import Producer


@pytest.fixture(scope="module")
def store_settings() -> dict[str, Any]:
    return {"flush_disk_type": "SYNC_FLUSH"}


def test_a_loop_is_woken_when_a_message_is_durable(store: StoreProcess, topic: str) -> None:
    with Producer(store.path) as producer:
        for number in range(50):
            future = producer.send_async(topic, b"%d" % number)
            while producer.poll():
                assert is_readable(producer.fileno(), 1.5)
            assert future.result(0).level == "durable"
