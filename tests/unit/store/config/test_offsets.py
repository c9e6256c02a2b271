"""consumerOffset.json and subscriptionGroup.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from silomq.store.config import offsets as offsets_json
from silomq.store.config.offsets import GroupConfig, GroupOffsets, SubscriptionGroups
from silomq.store.config.topics import DataVersion
from silomq.store.errors import Corrupt

if TYPE_CHECKING:
    from pathlib import Path

NAMES = st.text("abZ09%|_-", min_size=1, max_size=9)
OFFSETS = st.dictionaries(
    st.tuples(NAMES, NAMES),
    st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=4),
    max_size=4,
)


@given(OFFSETS)
def test_offsets_round_trip(table: dict[tuple[str, str], dict[int, int]]) -> None:
    parsed = offsets_json.parse(offsets_json.render(GroupOffsets(table)))
    assert (parsed.value, parsed.problems, parsed.bad) == (table, [], [])


def test_offsets_are_written_as_rocketmq_writes_them() -> None:
    offsets = GroupOffsets({("TopicTest", "groupA"): {1: 7, 0: 5}, ("A", "g"): {}})
    offsets.data_version = DataVersion(12, 0, 1_700_000_000_000)
    assert offsets_json.render(offsets) == (
        '{\n\t"dataVersion":{\n\t\t"counter":12,\n\t\t"stateVersion":0,'
        '\n\t\t"timestamp":1700000000000\n\t},\n\t"offsetTable":{\n\t\t"A@g":{},'
        '\n\t\t"TopicTest@groupA":{\n\t\t\t0:5,\n\t\t\t1:7\n\t\t}\n\t}\n}'
    )


def test_offsets_of_both_releases_are_read() -> None:
    new = '{"offsetTable":{"TopicTest@groupA":{0:5,1:7\n\t\t}}}'
    old = '{"offsetTable":{"TopicTest@groupA":{"0":5,"1":7}}}'
    for text in (new, old):
        parsed = offsets_json.parse(text)
        assert parsed.value == {("TopicTest", "groupA"): {0: 5, 1: 7}}
        assert parsed.problems == parsed.bad == []


def test_what_is_not_understood_is_told_and_kept(tmp_path: Path) -> None:
    path = tmp_path / offsets_json.OFFSETS_FILE
    path.write_text(
        '{"later":{"x":1},"offsetTable":{"a@g":{0:1,1:-1},"only":{0:1},"a@b@c":{"q":[1]}}}'
    )
    offsets, problems = offsets_json.load(path)
    assert offsets == {("a", "g"): {0: 1}}
    (problem,) = problems
    assert problem.startswith(f"{path}: ")
    assert all(word in problem for word in ("is -1", "'only'", "'a@b@c'"))
    assert offsets.main_is_good
    offsets_json.save(path, offsets)
    again, _ = offsets_json.load(path)
    assert again.foreign == {"only": {0: 1}, "a@b@c": {"q": [1]}}
    assert again.rest == {"later": {"x": 1}}


@pytest.mark.parametrize(
    "table",
    [
        "[]",
        '{"a@g":[]}',
        '{"a@g":{0:"1"}}',
        '{"a@g":{0:-2}}',
        '{"a@g":{0:true}}',
        '{"a@g":{0:1.5}}',
        '{"a@g":{0:9223372036854775808}}',
        '{"a@g":{-1:0}}',
        '{"a@g":{2147483648:0}}',
        '{"a@g":{"x":0}}',
    ],
)
def test_offsets_that_cannot_be_right_come_from_the_backup(tmp_path: Path, table: str) -> None:
    path = tmp_path / "x.json"
    good = GroupOffsets({("a", "g"): {0: 3}})
    offsets_json.save(path, good)
    offsets_json.save(path, good)
    path.write_text(f'{{"offsetTable":{table}}}')
    offsets, problems = offsets_json.load(path)
    assert offsets == good
    assert len(problems) == 1
    assert "its backup was loaded" in problems[0] or "the backup's values were used" in problems[0]
    assert not offsets.main_is_good
    offsets["a", "g"][0] = 4
    offsets_json.save(path, offsets)
    # The bad file has not become the backup, but is still there.
    assert len(list(tmp_path.glob("x.json.bad-*"))) == 1
    assert offsets_json.load(path) == (offsets, [])
    assert offsets_json.load(f"{path}.bak")[0] == good
    offsets_json.save(path, offsets)
    assert offsets_json.load(f"{path}.bak")[0] == offsets


def test_without_a_backup_a_bad_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert offsets_json.load(path) == ({}, [])
    assert offsets_json.load_groups(path) == ({}, [])
    path.write_text('{"offsetTable":{"a@g":{0:')
    with pytest.raises(Corrupt, match="repair one of them"):
        offsets_json.load(path)
    with pytest.raises(Corrupt, match="repair one of them"):
        offsets_json.load_groups(path)
    assert path.read_text().endswith("{0:")


GROUPS = st.builds(
    GroupConfig,
    st.just("g"),
    attributes=st.dictionaries(NAMES, NAMES, max_size=2),
    broker_id=st.integers(0, 9),
    consume_enable=st.booleans(),
    consume_message_orderly=st.booleans(),
    consume_timeout_minute=st.integers(0, 99),
    retry_max_times=st.integers(-1, 20),
    retry_queue_nums=st.integers(0, 9),
    subscription_data_set=st.none() | st.lists(st.dictionaries(NAMES, NAMES, max_size=2)),
    group_retry_policy=st.just({"type": "EXPONENTIAL", "exponentialRetryPolicy": {"max": 5}}),
    rest=st.dictionaries(NAMES.map(lambda n: f"x{n}"), st.integers(), max_size=2),
)


@given(GROUPS)
def test_groups_round_trip(config: GroupConfig) -> None:
    groups = SubscriptionGroups({"g": config})
    groups.forbidden = {"g": {"a": 1}}
    groups.foreign = {"a.b": {"q": 1}}
    parsed = offsets_json.parse_groups(offsets_json.render_groups(groups))
    assert parsed.value == groups
    assert parsed.value.forbidden == groups.forbidden
    assert parsed.value.foreign == groups.foreign
    assert len(parsed.problems) == 1
    assert "'a.b' is kept" in parsed.problems[0]
    assert parsed.bad == []


def test_groups_are_written_as_rocketmq_writes_them() -> None:
    groups = SubscriptionGroups({"g": GroupConfig("g")})
    assert offsets_json.render_groups(groups) == (
        '{\n\t"dataVersion":{\n\t\t"counter":0,\n\t\t"stateVersion":0,\n\t\t"timestamp":0\n\t},'
        '\n\t"forbiddenTable":{},\n\t"subscriptionGroupTable":{\n\t\t"g":{\n\t\t\t"attributes":{},'
        '\n\t\t\t"brokerId":0,\n\t\t\t"consumeBroadcastEnable":true,\n\t\t\t"consumeEnable":true,'
        '\n\t\t\t"consumeFromMinEnable":true,\n\t\t\t"consumeMessageOrderly":false,'
        '\n\t\t\t"consumeTimeoutMinute":15,\n\t\t\t"groupName":"g",'
        '\n\t\t\t"groupRetryPolicy":{\n\t\t\t\t"type":"CUSTOMIZED"\n\t\t\t},'
        '\n\t\t\t"groupSysFlag":0,\n\t\t\t"notifyConsumerIdsChangedEnable":true,'
        '\n\t\t\t"retryMaxTimes":16,\n\t\t\t"retryQueueNums":1,'
        '\n\t\t\t"whichBrokerWhenConsumeSlowly":1\n\t\t}\n\t}\n}'
    )


def test_a_4x_groups_file_gets_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / offsets_json.GROUPS_FILE
    path.write_text(
        '{"dataVersion":{"counter":2,"timestamp":5},"subscriptionGroupTable":{"TOOLS_CONSUMER":'
        '{"brokerId":0,"consumeEnable":false,"groupName":"TOOLS_CONSUMER","retryMaxTimes":3}}}'
    )
    groups, problems = offsets_json.load_groups(path)
    expected = replace(GroupConfig("TOOLS_CONSUMER"), consume_enable=False, retry_max_times=3)
    assert (groups, problems) == ({"TOOLS_CONSUMER": expected}, [])
    assert groups.data_version == DataVersion(2, 0, 5)
    offsets_json.save_groups(path, groups)
    assert offsets_json.load_groups(path)[0] == groups


@pytest.mark.parametrize(
    "bean",
    [
        "[]",
        '{"groupName":"h"}',
        '{"consumeEnable":1}',
        '{"retryMaxTimes":-2}',
        '{"retryQueueNums":"1"}',
        '{"subscriptionDataSet":{}}',
        '{"attributes":{"a":1}}',
        '{"groupRetryPolicy":[1]}',
    ],
)
def test_a_group_that_cannot_be_right_costs_no_other(tmp_path: Path, bean: str) -> None:
    path = tmp_path / "x.json"
    text = f'{{"forbiddenTable":{{"g":7}},"subscriptionGroupTable":{{"g":{bean},"h":{{}}}}}}'
    path.write_text(text)
    groups, problems = offsets_json.load_groups(path)
    assert groups == {"h": GroupConfig("h")}
    assert groups.forbidden == {}
    assert len(problems) == 1
    assert "these values were left out" in problems[0]
    before = SubscriptionGroups({"g": GroupConfig("g", retry_max_times=3)})
    before.forbidden = {"g": {"t": 1}}
    (tmp_path / "x.json.bak").write_text(offsets_json.render_groups(before))
    groups, _ = offsets_json.load_groups(path)
    assert groups == {**before, "h": GroupConfig("h")}
    assert groups.forbidden == before.forbidden
    offsets_json.save_groups(path, groups)
    (kept,) = tmp_path.glob("x.json.bad-*")
    assert kept.read_text() == text
    assert offsets_json.load_groups(path) == (groups, [])


@pytest.mark.parametrize(
    "value", ["-1", "true", "1.5", "[]", "9223372036854775808", '"1"', "null", "{}"]
)
def test_one_bad_offset_costs_no_other(tmp_path: Path, value: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(f'{{"offsetTable":{{"a@g":{{0:3,1:{value},2:4}},"b@g":{{0:5}}}}}}')
    offsets, _ = offsets_json.load(path)
    assert offsets == {("a", "g"): {0: 3, 2: 4}, ("b", "g"): {0: 5}}
    before = GroupOffsets({("a", "g"): {0: 1, 1: 2}, ("c", "g"): {0: 1}})
    (tmp_path / "x.json.bak").write_text(offsets_json.render(before))
    offsets, _ = offsets_json.load(path)
    expected = {0: 3, 2: 4} if value == "-1" else {0: 3, 1: 2, 2: 4}
    assert offsets == {("a", "g"): expected, ("b", "g"): {0: 5}}
