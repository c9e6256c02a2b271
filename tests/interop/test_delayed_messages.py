"""RocketMQ reads our delayed messages: those that wait, with their due times in the queue's
entries, and those that were delivered.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from interop.rocketmq import RocketMQ, require
from support.deliveries import collect
from support.harness import LONG, StoreProcess
from support.small_settings import SMALL
from support.twins import DELAY_LEVELS_MS

from silomq import Consumer, Producer
from silomq.client.groups.retry import send_back
from silomq.store.config import delay_offsets
from silomq.store.names import SCHEDULE_TOPIC


@pytest.mark.parametrize("release", ["5.3.3", pytest.param("4.9.8", marks=LONG)])
def test_rocketmq_reads_delayed_messages(tmp_path: Path, release: str) -> None:
    require(release)
    with StoreProcess(tmp_path / "store") as store, Producer(store.path) as producer:
        producer.send("t", b"soon", delay_level=1, tags="x", queue=2)
        for level in range(2, 19):
            producer.send("t", b"later", delay_level=level, tags="x", queue=2)
        producer.send("t", b"at", delay_ms=500)
        producer.send("t", b"much later", delay_ms=3_600_000)
        came = collect(store.path, "t", [b"soon", b"at"])
        send_back(producer, came.views[0], "g", delay_level=18)
        producer.close()
        with Consumer(store.path, SCHEDULE_TOPIC) as consumer:
            waiting = {v.physical_offset: v for v in consumer.poll(100, 5)}
    rocketmq = RocketMQ(release, tmp_path, {**SMALL, "mapped_file_size_consume_queue": 40960})
    said = rocketmq.run(store.path, "start", "dump", "-", "--halt")
    assert said.all("wrong") == []
    ends = {(q["topic"], q["queueId"]): q["maxOffset"] for q in said.all("queue")}
    assert [ends[SCHEDULE_TOPIC, level] for level in range(18)] == [1] * 17 + [2]
    assert ends["rmq_sys_wheel_timer", 0] == 2
    assert sum(n for (topic, _), n in ends.items() if topic == "t") == 2
    lines = {line["commitLogOffset"]: line for line in said.all("msg")}
    assert waiting.keys() <= lines.keys()
    for offset, view in waiting.items():
        line = lines[offset]
        due = view.store_timestamp + DELAY_LEVELS_MS[view.queue_id]
        assert line["properties"] == view.properties
        assert line["cq"]["tagsCode"] == due
    offsets, _ = delay_offsets.load(store.path / "config/delayOffset.json")
    assert offsets[1] == 1
