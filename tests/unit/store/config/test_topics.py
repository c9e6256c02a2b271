"""topics.json: what is written, and what is read of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.topics_json import with_topic

from silomq.store.config import topics
from silomq.store.config.fastjson import loads
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


def test_texts_that_are_kept_change_nothing_but_the_time() -> None:
    texts: topics.Texts = {}
    table = TopicTable({"a": TopicConfig("a"), "b": TopicConfig("b")}, foreign={"c.d": {"x": None}})
    for _ in range(3):
        assert topics.render(table, texts) == topics.render(table)
        table = with_topic(table, TopicConfig("b", table.topics["b"].perm + 1), 1)
        table = with_topic(table, TopicConfig(f"n{table.data_version.counter}"), 2)
        table = table.without_topic("a", 3)


def test_texts_of_deleted_topics_are_not_kept() -> None:
    texts: topics.Texts = {}
    for number in range(5):
        topics.render(TopicTable({name: TopicConfig(name) for name in ("a", f"t{number}")}), texts)
    assert texts.keys() == {"a", "t4"}


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
    topics.save(path, two, main_is_good=False)
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
    assert (report.source, report.main_is_good) == ("main", True)
    assert "broker.local" in (report.problem or "")
    topics.save(path, table)
    assert topics.load(path)[0] == table
    assert '"broker.local":{' in path.read_text()


def test_what_other_releases_write_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    path.write_text(
        '{"dataVersion":{"counter":1},"later":[{"x":null}],"topicConfigTable":{'
        '"a":{"topicName":"a","aNew":{"b":[1]},"zNew":2.5}}}'
    )
    table, report = topics.load(path)
    assert report.problem is None
    topics.save(path, table)
    saved = loads(path.read_text())
    assert isinstance(saved, dict)
    assert list(saved) == ["dataVersion", "later", "topicConfigTable"]
    bean = saved["topicConfigTable"]["a"]
    assert (bean["aNew"], bean["zNew"], bean["perm"]) == ({"b": [1]}, 2.5, 6)
    assert list(bean) == sorted(bean)
    assert topics.load(path)[0].topics == table.topics


def test_an_attribute_may_be_written_without_quotes(tmp_path: Path) -> None:
    """RocketMQ 5.3.3 reads these texts, and has no entry for null."""
    path = tmp_path / "topics.json"
    attributes = '{"reserve.time":720,"x":-1,"half":1.5,"yes":true,"no":false,"none":null}'
    path.write_text('{"topicConfigTable":{"a":{"attributes":' + attributes + "}}}")
    table, report = topics.load(path)
    assert table.topics["a"].attributes == {
        "reserve.time": "720", "x": "-1", "half": "1.5", "yes": "true", "no": "false",
    }  # fmt: skip
    assert report.main_is_good


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
        '{"attributes":{"a":[1]}}',
        "[]",
    ],
)
def test_an_entry_that_cannot_be_right_costs_no_other(tmp_path: Path, bean: str) -> None:
    """It comes from the backup if that has it, and the file stays beside the next one."""
    path = tmp_path / "topics.json"
    text = f'{{"topicConfigTable":{{"a":{bean},"b":{{"perm":4}}}}}}'
    path.write_text(text)
    table, report = topics.load(path)
    assert table.topics == {"b": TopicConfig("b", perm=4)}
    assert (report.source, report.main_is_good) == ("main", False)
    assert "these values were left out" in (report.problem or "")

    before = TopicTable({name: TopicConfig(name) for name in ("a", "gone")})
    (tmp_path / "topics.json.bak").write_text(topics.render(before))
    table, report = topics.load(path)
    assert {name: config.perm for name, config in table.topics.items()} == {"a": 6, "b": 4}
    assert "the backup's values were used" in (report.problem or "")
    topics.save(path, table, main_is_good=report.main_is_good)
    assert topics.load(f"{path}.bak")[0].topics.keys() == {"a", "gone"}
    (kept,) = tmp_path.glob("topics.json.bad-*")
    assert kept.read_text() == text
    assert topics.load(path)[1].problem is None


@pytest.mark.parametrize(
    "text",
    ["[]", "7", "{", '{"topicConfigTable":[1]}', '{"a":NaN}', '{"a":1e999}',
     '{"a":' + "[" * 60 + "]" * 60 + "}"],
)  # fmt: skip
def test_a_file_that_is_bad_as_a_whole_is_refused_without_a_backup(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "topics.json"
    path.write_text(text)
    with pytest.raises(Corrupt, match="unreadable"):
        topics.load(path)
