"""Workloads of OpenMessaging Benchmark, read as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.bench.harness.workload.load import BadWorkload, load
from silomq.bench.harness.workload.openmessaging import tables

if TYPE_CHECKING:
    from pathlib import Path

FILE = """
name: 1 producer / 1 consumer on 1 topic
topics: 1
partitionsPerTopic: 16
keyDistributor: "KEY_ROUND_ROBIN"
messageSize: 100
payloadFile: "payload/payload-100b.data"
subscriptionsPerTopic: 2
consumerPerSubscription: 3
producersPerTopic: 4
producerRate: 50000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
"""


def test_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "1-topic-16-partitions-100b.yaml"
    file.write_text(FILE)
    plan = load(str(file), ["duration=10s"])
    found = plan.workload
    assert plan.name == "1-topic-16-partitions-100b"
    assert (found.topics.count, found.topics.queues) == (1, 16)
    assert (found.producers.processes, found.producers.size) == (4, 100)
    assert found.producers.rate.fixed == 50_000
    assert found.producers.keys > 0
    assert (found.consumers.groups, found.consumers.processes) == (2, 3)
    assert (found.duration, found.warm_up) == (10.0, 60.0)
    assert not found.consumers.after


def test_a_backlog_is_sent_before_it_is_read() -> None:
    found = tables(FILE.replace("SizeGB: 0", "SizeGB: 1"))
    assert found["consumers"]["after"]
    assert found["producers"]["messages"] == (1 << 30) // 100


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("topics: 1", "topics: many"), "topics"),
        (("messageSize", "messagesize"), "messagesize"),
        (("name:", "- name:"), "no workload of OpenMessaging Benchmark"),
    ],
)
def test_what_is_not_allowed_is_named(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(FILE.replace(*change))
    with pytest.raises(BadWorkload, match=said):
        load(str(file))


@given(st.text(max_size=200))
def test_any_text_gives_tables_or_an_error(text: str) -> None:
    try:
        assert "producers" in tables(text)
    except ValueError as error:
        assert "OpenMessaging" in str(error)  # noqa: PT017
