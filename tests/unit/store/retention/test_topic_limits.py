"""Limits of single topics: what attributes mean, and what topics keep of a log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silomq.store.config import topics as topics_json
from silomq.store.config.topics import TopicConfig
from silomq.store.consumequeue.queue import BLANK_ENTRY, ENTRY, ENTRY_SIZE, QueueFiles
from silomq.store.disk import files as disk
from silomq.store.disk.files import Folder
from silomq.store.disk.paths import file_name
from silomq.store.errors import Corrupt
from silomq.store.retention.judgement import Limits, Why, judge
from silomq.store.retention.rules import HOUR_MS, LogFileAge
from silomq.store.retention.topic_limits import (
    MOST_HOURS,
    NO_LIMITS,
    Kept,
    TopicLimits,
    TopicsKeep,
    bad_attribute,
    limits_of,
)
from silomq.store.retention.topic_retention import OwnLimits, Seen, TopicRetention

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1000 * HOUR_MS
FILE = 100
PER_FILE = 3
#: The size of each record, bytes.
RECORD = 10


@pytest.mark.parametrize(
    ("attributes", "limits"),
    [
        ({}, NO_LIMITS),
        ({"reserve.time": "24", "message.type": "FIFO"}, TopicLimits(time_h=24)),
        ({"reserve.time": "-1", "silomq.reserve.size": "-1"}, NO_LIMITS),
        ({"reserve.time": "0"}, NO_LIMITS),
        ({"silomq.reserve.size": "0"}, TopicLimits(size=0)),
        ({"silomq.reserve.unconsumed": "0"}, TopicLimits(unconsumed_h=0)),
        ({"reserve.time": "9223372036854775807"}, TopicLimits(time_h=MOST_HOURS)),
        ({"reserve.time": "9" * 5000, "silomq.reserve.size": "\u00b2"}, NO_LIMITS),
    ],
)
def test_what_attributes_mean(attributes: dict[str, str], limits: TopicLimits) -> None:
    assert limits_of(attributes) == limits
    assert bool(limits) == (limits != NO_LIMITS)


def test_attributes_that_can_be_no_limit() -> None:
    assert bad_attribute({"reserve.time": "-1", "silomq.reserve.size": "0", "other": "x"}) == ""
    assert bad_attribute({"reserve.time": "-2"}) == (
        "attribute reserve.time: '-2': hours from 0 on, or -1"
    )
    assert "bytes from 0 on" in bad_attribute({"silomq.reserve.size": "1GiB"})


def test_the_file_of_topics_is_read_when_it_has_changed(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as config:
        said: list[str] = []
        own = OwnLimits(config, said.append)
        assert own.read() == {}
        path = tmp_path / "topics.json"
        configs = {
            name: TopicConfig(name, attributes={"reserve.time": "5"})
            for name in ("t", "SCHEDULE_TOPIC_XXXX")
        }
        configs["u"] = TopicConfig("u", attributes={"reserve.time": "5h"})
        topics_json.save(path, topics_json.TopicTable(configs))
        found = own.read()
        assert found == {"t": TopicLimits(time_h=5)}
        assert own.read() is found
        assert said == [
            "topic u: attribute reserve.time: '5h': hours from 0 on, or -1; the setting holds"
        ]
        path.rename(tmp_path / "topics.json.bak")
        for limits in (own, OwnLimits(config, said.append)):
            assert limits.read() == found, "the backup has them"
        for name in ("topics.json", "topics.json.bak"):
            (tmp_path / name).write_text("{")
        for _ in range(2):
            with pytest.raises(Corrupt):
                own.read()


def make_queue(queues: QueueFiles, topic: str, queue_id: int, places: list[int]) -> None:
    """A queue with one entry for each log offset; None is not possible here, -1 is a blank one."""
    entries = [BLANK_ENTRY if at < 0 else ENTRY.pack(at, RECORD, 7) for at in places]
    with queues.folder(topic, queue_id, create=True) as folder:
        for number in range(len(entries) // PER_FILE + 1):
            part = b"".join(entries[PER_FILE * number : PER_FILE * (number + 1)])
            name = file_name(number * queues.file_size)
            with folder.file(name, write=True, create=True) as fd:
                disk.write_at(fd, part.ljust(queues.file_size, b"\0"), 0)


def look(
    path: Path,
    records: list[tuple[str, int]],
    hours: list[int],
    own: dict[str, TopicLimits],
    consumed: dict[str, int] | None = None,
    **limits: Any,
) -> tuple[Limits, list[LogFileAge]]:
    """The limits of a log whose files were last written so many `hours` ago, with records of
    (topic, queue) one behind the other, of which a group has consumed some of each topic's queue 0.
    """
    os.makedirs(path)
    files = [LogFileAge(FILE * i, NOW - ago * HOUR_MS) for i, ago in enumerate(hours)]
    end = FILE * (len(files) - 1)
    given_limits: dict[str, Any] = {"reserved_ms": 10 * HOUR_MS, "removable": end, "end": end + 1}
    found = Limits(file_size=FILE, now_ms=NOW, **(given_limits | limits))
    queues = QueueFiles(Folder.open(path), PER_FILE * ENTRY_SIZE)
    for topic, queue_id in sorted(set(records)):
        places = [RECORD * i for i, record in enumerate(records) if record == (topic, queue_id)]
        make_queue(queues, topic, queue_id, places)
    offsets = {(topic, "g"): {0: at} for topic, at in (consumed or {}).items()}
    keep = TopicRetention(
        queues, own, files, found, lambda: offsets,
        seen=Seen(), number_of=lambda topic: ["", *sorted(own)].index(topic) if topic in own else 0,
        beat=lambda: None,
    ).look()  # fmt: skip
    queues.root.close()
    return found.with_topics(keep), files


def whys(found: tuple[Limits, list[LogFileAge]]) -> list[str]:
    limits, files = found
    return [judge(file, limits, lambda _: True).why.value for file in files]


def test_a_shorter_limit_moves_the_begin_and_releases_files(tmp_path: Path) -> None:
    own = {"a": TopicLimits(time_h=2), "b": TopicLimits(time_h=3)}
    mixed = [("a", 0), ("b", 1)] * 15
    found = look(tmp_path / "x", mixed, [5, 3, 2, 1], own)
    assert found[0].topics.begins == {"a": 300, "b": 200}
    assert found[0].topics.released == 200
    assert whys(found) == ["due", "due", "young", "end"]
    full = look(tmp_path / "y", [*mixed, ("c", 0)], [5, 3, 2, 1], own)
    assert full[0].topics.released == 200
    other = look(tmp_path / "z", [*mixed[:12], ("c", 0), *mixed], [5, 3, 2, 1], own)
    assert other[0].topics.released == 100, "another topic has a message in the second file"
    assert whys(other) == ["due", "young", "young", "end"]
    assert other[0].by_size_only().topics.released == 0, "a file goes early at the usual hours"


def test_a_longer_limit_holds_the_files_unless_the_disk_is_full(tmp_path: Path) -> None:
    own = {"a": TopicLimits(time_h=20)}
    records = [("b", 0)] * 10 + [("a", 0)] * 20
    found = look(tmp_path / "x", records, [15, 15, 15, 1], own)
    assert found[0].topics.held is not None
    assert (found[0].topics.held.log_offset, found[0].topics.held.kept) == (100, Kept(20))
    assert whys(found) == ["due", "topic", "topic", "end"]
    until = judge(found[1][1], found[0], lambda _: True).until_ms
    assert until == found[1][1].modified_ms + 20 * HOUR_MS
    assert whys(look(tmp_path / "y", records, [15, 15, 15, 1], own, full=True))[1] == "due"


def test_a_size_of_its_own(tmp_path: Path) -> None:
    records = [("a", 0), ("b", 0)] * 20
    own = {"a": TopicLimits(size=100)}
    found = look(tmp_path / "x", records, [1, 1, 1, 1, 1], own)
    assert found[0].topics.begins == {"a": 200}, "two files behind have 50 bytes of it each"
    own = {"a": TopicLimits(size=0, time_h=20)}
    found = look(tmp_path / "y", records, [1, 1, 1, 1, 1], own, reserved_size=1)
    assert found[0].topics.begins == {"a": 0}, "the store's limit by size does not count"
    own = {"a": TopicLimits(time_h=20)}
    found = look(tmp_path / "z", records, [1, 1, 1, 1, 1], own, reserved_size=1)
    assert found[0].topics.begins == {"a": 400}


def test_blank_entries_have_no_size(tmp_path: Path) -> None:
    own = {"a": TopicLimits(size=1)}
    queues = QueueFiles(Folder.open(tmp_path), PER_FILE * ENTRY_SIZE)
    make_queue(queues, "a", 0, [-1, -1, 0, 10, 110])
    files = [LogFileAge(FILE * i, NOW) for i in range(4)]
    limits = Limits(file_size=FILE, removable=300, end=301, now_ms=NOW, reserved_ms=10 * HOUR_MS)
    seen = Seen()
    TopicRetention(
        queues, own, files, limits, dict, seen=seen, number_of=lambda _: 5, beat=lambda: None
    ).look()
    assert seen.sizes == {(5, 0): 20, (5, 100): 10, (5, 200): 0}
    queues.root.close()


def test_later_looks_open_little_and_find_the_same(tmp_path: Path) -> None:
    """Time passes, and messages come, between looks that share what they have seen."""
    own = {"a": TopicLimits(time_h=2), "b": TopicLimits(size=60), "c": TopicLimits(time_h=1)}
    records = [("a", 0), ("b", 0), ("d", 0), ("b", 1), ("c", 0)] * 4 + [("a", 1), ("b", 1)] * 20
    queues = QueueFiles(Folder.open(tmp_path), PER_FILE * ENTRY_SIZE)
    files = [LogFileAge(FILE * i, NOW - (5 - i) * HOUR_MS) for i in range(6)]
    seen = Seen()
    fresh = again = 0
    for hour in range(6):
        written = records[: 35 + 5 * hour]
        for topic, queue_id in sorted(set(written)):
            places = [RECORD * i for i, record in enumerate(written) if record == (topic, queue_id)]
            make_queue(queues, topic, queue_id, places)
        end = RECORD * len(written)
        limits = Limits(
            file_size=FILE, removable=end // FILE * FILE, end=end, now_ms=NOW + hour * HOUR_MS,
            reserved_ms=4 * HOUR_MS,
        )  # fmt: skip

        def look_with(seen: Seen, limits: Limits = limits) -> tuple[TopicsKeep, int]:
            beats: list[None] = []
            keep = TopicRetention(
                queues, own, files, limits, dict, seen=seen,
                number_of=" abcd".index, beat=lambda: beats.append(None),
            ).look()  # fmt: skip
            return keep, len(beats)

        found, _ = look_with(seen)
        (unseen, first), (later, second) = look_with(Seen()), look_with(seen)
        assert unseen == later == found, hour
        fresh += first
        again += second
    assert again * 4 < fresh, "only topics without a message left are looked at again"
    seen.drop_sizes(300)
    assert min(base for _, base in seen.sizes) == 300
    queues.root.close()


def test_what_a_group_has_not_consumed(tmp_path: Path) -> None:
    own = {"a": TopicLimits(time_h=1, unconsumed_h=4)}
    records = [("a", 0)] * 30
    hours = [5, 3, 3, 0]
    found = look(tmp_path / "x", records, hours, own, {"a": 0})
    assert found[0].topics.begins == {"a": 100}, "the first is older than the bound"
    assert found[0].topics.held is not None
    assert found[0].topics.held.kept == Kept(4, unconsumed=True)
    assert look(tmp_path / "y", records, hours, own, {"a": 20})[0].topics.begins == {"a": 200}
    assert look(tmp_path / "z", records, hours, own)[0].topics.begins == {"a": 300}
    own = {"a": TopicLimits(time_h=1, unconsumed_h=0)}
    more = {"unconsumed_ms": 100 * HOUR_MS}
    found = look(tmp_path / "0", records, hours, own, {"a": 0}, **more)
    assert found[0].topics.begins == {"a": 300}, "the store's bound does not count"
    own = {"a": TopicLimits(time_h=1)}
    found = look(tmp_path / "1", records, hours, own, {"a": 0}, **more)
    assert found[0].topics.begins == {"a": 0}, "the store's bound counts"


def expired(hours_ago: int, own: TopicLimits | None) -> bool:
    return hours_ago >= (10 if own is None or own.time_h is None else own.time_h)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1)), min_size=1, max_size=50),
    st.lists(st.integers(0, 30), min_size=6, max_size=6),
    st.dictionaries(st.sampled_from("ab"), st.builds(TopicLimits, st.integers(1, 30))),
)
def test_no_file_goes_that_a_topic_keeps(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[str, int]],
    ages: list[int],
    own: dict[str, TopicLimits],
) -> None:
    """Beside a list: a file is due if and only if all messages in it and before it have expired,
    by their topic's limit, or by the store's, which counts the whole file.
    """
    hours = sorted(ages, reverse=True)
    limits, files = look(tmp_path_factory.mktemp("log") / "q", records, hours, own)
    for topic, begin in limits.topics.begins.items():
        gone = [file.base for file, ago in zip(files[:-1], hours, strict=False)
                if expired(ago, own[topic])]  # fmt: skip
        assert begin == (gone[-1] + FILE if gone else 0)
    kept = others = False
    for number, (file, ago) in enumerate(zip(files[:-1], hours, strict=False)):
        inside = {topic for i, (topic, _) in enumerate(records) if i * RECORD // FILE == number}
        # Files go in their order: what keeps an earlier one keeps this one too.
        kept |= any(not expired(ago, own[topic]) for topic in inside & set(own))
        others |= bool(inside - set(own)) or not own
        due = not kept and (expired(ago, None) or not others)
        assert (judge(file, limits, lambda _: True).why is Why.DUE) == due, (file, inside)


def test_no_limits_cost_nothing() -> None:
    assert TopicsKeep().released == 0
    assert TopicsKeep().held is None
