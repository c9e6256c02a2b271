"""topics.json: what is written, and what is read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.topics_json import with_topic

from silomq.store.config import topics
from silomq.store.config.topics import DataVersion, TopicConfig, TopicTable
from silomq.store.disk.paths import TOPICS
from silomq.store.errors import Corrupt

if TYPE_CHECKING:
    from pathlib import Path


ORDERS = TopicConfig("orders", 8, 4, order=True, attributes={"+queue.type": "SimpleCQ"})


def test_topics_are_written_as_rocketmq_writes_them() -> None:
    table = with_topic(TopicTable(), ORDERS, 1_700_000_000_000)
    assert topics.render(table) == (
        '{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"stateVersion":0,'
        '\n\t\t"timestamp":1700000000000\n\t},'
        '\n\t"topicConfigTable":{\n\t\t"orders":{\n\t\t\t"attributes":{'
        '\n\t\t\t\t"+queue.type":"SimpleCQ"\n\t\t\t},\n\t\t\t"order":true,\n\t\t\t"perm":6,'
        '\n\t\t\t"readQueueNums":8,\n\t\t\t"topicFilterType":"SINGLE_TAG",'
        '\n\t\t\t"topicName":"orders",\n\t\t\t"topicSysFlag":0,\n\t\t\t"writeQueueNums":4'
        "\n\t\t}\n\t}\n}"
    )


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / TOPICS
    assert topics.load(path)[0] == TopicTable()
    one = with_topic(TopicTable(), ORDERS, 1)
    two = with_topic(one, TopicConfig("%RETRY%g"), 2)
    topics.save(path, one)
    topics.save(path, two)
    assert topics.load(path)[0] == two
    path.write_text("{")
    table, report = topics.load(path)
    assert (table, report.source) == (one, "backup")
    assert "unreadable" in (report.problem or "")
    topics.save(path, two, keep_backup=False)
    assert topics.load(tmp_path / "topics.json.bak")[0] == one
    assert two.without_topic("orders", 3).topics.keys() == {"%RETRY%g"}
    assert two.without_topic("nobody", 3) is two
    assert two.data_version == DataVersion(2, 0, 2)


def test_a_4x_file_and_names_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text(
        '{"dataVersion":{"counter":7,"timestamp":9},"topicConfigTable":{'
        '"a":{"perm":4,"topicName":"a"},"broker.local":{"topicName":"broker.local"}}}'
    )
    table, report = topics.load(path)
    assert table.topics == {"a": TopicConfig("a", perm=4)}
    assert not table.topics["a"].writable
    assert table.data_version == DataVersion(7, 0, 9)
    assert report.source == "main"
    assert "broker.local" in (report.problem or "")


@pytest.mark.parametrize(
    "bean",
    [
        '{"perm":-1}',
        '{"perm":true}',
        '{"readQueueNums":4294967296}',
        '{"writeQueueNums":"4"}',
        '{"topicName":"b"}',
        '{"order":1}',
        '{"topicFilterType":"X"}',
        '{"attributes":{"a":1}}',
        "[]",
    ],
)
def test_entries_that_cannot_be_right(tmp_path: Path, bean: str) -> None:
    path = tmp_path / "topics.json"
    path.write_text(f'{{"topicConfigTable":{{"a":{bean}}}}}')
    with pytest.raises(Corrupt, match="unreadable"):
        topics.load(path)
