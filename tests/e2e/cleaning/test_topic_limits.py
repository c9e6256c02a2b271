"""Topics with limits of their own: what readers no longer see, and which files stay or go."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.files import log_records
from support.checking.messages import read_topic
from support.cleaned_stores import active, await_durable, fill, least_offsets, log_files
from support.commands import silo
from support.harness import StoreProcess, eventually
from support.small_settings import ALWAYS, LOG_FILE, QUEUE_FILE, options

from silomq import Admin, GroupConsumer, IllegalMessage, TopicLimits
from silomq.store.consumequeue.queue import QueueFiles, read_entry
from silomq.store.disk.files import Folder

if TYPE_CHECKING:
    from pathlib import Path

HOUR_S = 3600
#: All files would stay for ten hours.
YOUNG = {**ALWAYS, "file_reserved_time_h": 10, "flush_consumer_offset_interval_ms": 100}


def mix(store: StoreProcess, rounds: int, *topics: str) -> None:
    """Sends to the topics in turn, so that each file has messages of all of them."""
    for i in range(rounds):
        for topic in topics:
            fill(store, 30 * i, 30, topic)
    await_durable(store)
    assert active(store) >= 4 * LOG_FILE


def age(store: StoreProcess, bases: list[int], hours: int = 1) -> None:
    """Makes the files look as if they were last written so long ago."""
    old = time.time() - hours * HOUR_S - 1
    for base in bases:
        os.utime(store.path / "commitlog" / f"{base:020d}", (old, old))


def first_of(store: StoreProcess, topic: str) -> int:
    """The log offset of the topic's first message that readers see, by its queues' begins."""
    found = []
    with Folder.open(store.path / "consumequeue") as root:
        queues = QueueFiles(root, QUEUE_FILE)
        for queue_id, least in least_offsets(store, topic).items():
            slot = store.table.slot(topic, queue_id)
            if least == store.table.queue_word(slot, "max_offset").load():
                continue
            with queues.folder(topic, queue_id) as folder:
                found.append(read_entry(folder, queues.file_size, least)[0])
    return min(found)


def first_record(store: StoreProcess, topic: str, begin: int) -> int:
    """The log offset of the topic's first record from `begin` on."""
    places = [record.physical_offset for record in log_records(store) if record.topic == topic]
    return min(place for place in places if place >= begin)


def explained(store: StoreProcess) -> list[dict[str, Any]]:
    settings = {k: v for k, v in store.settings.items() if k.startswith(("file_", "delete_"))}
    settings["mapped_file_size_commit_log"] = LOG_FILE
    settings["mapped_file_size_consume_queue"] = QUEUE_FILE
    done = silo("retention", "explain", str(store.path), "--json", *options(settings))
    files: list[dict[str, Any]] = json.loads(done.stdout)["files"]
    return files


def files_up_to(store: StoreProcess, last: int) -> list[int]:
    """Offsets of the commit-log files, without those that were made ahead meanwhile."""
    return [base for base in log_files(store) if base <= last]


class OnlySetUp(StoreProcess):
    """A store whose clean does nothing after it was set up."""

    planted = """
import time
from silomq.actors.clean import Clean

def run(self):
    while not self.stopping:
        self.beat()
        time.sleep(0.05)

Clean.run = run
"""


def test_a_shorter_limit_hides_what_has_expired(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **YOUNG) as store:
        with Admin(store.path) as admin:
            admin.create_topic("brief", 3, reserved_time_h=1)
            assert admin.topic("brief").limits == TopicLimits(time_h=1)
        mix(store, 20, "brief", "long")
        bases = log_files(store)
        assert first_of(store, "brief") == first_record(store, "brief", 0)
        age(store, bases[:2])
        begin = first_record(store, "brief", bases[2])
        eventually(lambda: first_of(store, "brief") == begin, "brief's oldest are hidden")
        assert min(view.physical_offset for view in read_topic(store.path, "brief")) == begin
        assert first_of(store, "long") == first_record(store, "long", 0)
        assert files_up_to(store, bases[-1]) == bases
        assert [file["why"] for file in explained(store)[:3]] == ["young"] * 3
        hidden = least_offsets(store, "brief")
        assert all(hidden.values())
        with GroupConsumer(store.path, "g", {"brief": "*"}, start="earliest") as consumer:
            views = consumer.poll(10_000, timeout=10)
            assert min(view.physical_offset for view in views) >= bases[2]
        store.kill("clean")
        store.await_beat("clean")
        assert least_offsets(store, "brief") == hidden
        store.stop()
        with OnlySetUp(store.path, **YOUNG) as begun:
            assert least_offsets(begun, "brief") == hidden, "before anybody could read"
        store.start()
        with Admin(store.path) as admin:
            admin.update_topic("brief", reserved_time_h=-1)
            assert admin.topic("brief").limits == TopicLimits()
        store.stop()
        store.start()
        assert first_of(store, "brief") == first_record(store, "brief", 0)


def test_the_time_that_is_told_is_the_earliest_at_which_topics_let_a_file_go(
    tmp_path: Path,
) -> None:
    with StoreProcess(tmp_path / "store", **YOUNG) as store:
        with Admin(store.path) as admin:
            admin.create_topic("brief", 3, reserved_time_h=2)
            admin.create_topic("briefer", 3, reserved_time_h=1)
        mix(store, 20, "brief", "briefer")
        for file in explained(store)[:3]:
            assert file["why"] == "young"
            assert "its topics may let it sooner" in file["about"]
            assert 0 <= file["when_ms"] - file["modified_ms"] - HOUR_S * 1000 < 60_000


def test_a_topic_that_is_made_again_begins_with_its_first_message(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **YOUNG) as store, Admin(store.path) as admin:
        admin.create_topic("brief", 3, reserved_time_h=1)
        mix(store, 20, "brief", "long")
        bases = log_files(store)
        age(store, bases[:2])
        eventually(lambda: first_of(store, "brief") >= bases[2], "brief's oldest are hidden")
        admin.delete_topic("brief")
        admin.create_topic("brief", 3, reserved_time_h=1)
        fill(store, 0, 30, "brief")
        for _ in range(3):
            store.await_beat("clean")
        assert len(read_topic(store.path, "brief")) == 30
        mix(store, 20, "long", "brief")
        end = active(store)
        age(store, [base for base in log_files(store) if base < end])
        begin = first_record(store, "brief", end)
        eventually(lambda: first_of(store, "brief") == begin, "its oldest are hidden as well")


def test_a_file_goes_early_when_all_its_topics_let_it(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **YOUNG) as store:
        with Admin(store.path) as admin:
            for topic in ("a", "b"):
                admin.create_topic(topic, 3, reserved_time_h=1)
        fill(store, 0, 30, "other")
        mix(store, 20, "a", "b")
        bases = log_files(store)
        age(store, bases[:3])
        eventually(lambda: first_of(store, "a") >= bases[3], "what has expired is hidden")
        store.await_beat("clean")
        assert files_up_to(store, bases[-1]) == bases, (
            "the first file has messages of another topic"
        )
        assert explained(store)[0]["why"] == "young"
        age(store, bases[:1], hours=10)
        eventually(
            lambda: files_up_to(store, bases[-1]) == bases[3:], "the first expires, two go early"
        )
        assert first_of(store, "b") == first_record(store, "b", 0)


def test_a_longer_limit_keeps_the_files(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **{**YOUNG, "file_reserved_time_h": 1}) as store:
        with Admin(store.path) as admin:
            admin.create_topic("audit", 3, reserved_time_h=48)
        fill(store, 0, 300, "other")
        mix(store, 20, "other", "audit")
        before = first_record(store, "audit", 0) // LOG_FILE * LOG_FILE
        assert before > 0
        end = active(store)
        age(store, [base for base in log_files(store) if base < end], hours=24)
        eventually(lambda: log_files(store)[0] == before, "files without audit's messages go")
        file = explained(store)[0]
        assert (file["why"], file["about"]) == ("topic", "topic audit keeps its messages for 48 h")
        assert file["when_ms"] >= file["modified_ms"] + 48 * HOUR_S * 1000
        for _ in range(3):
            store.await_beat("clean")
        assert log_files(store)[0] == before
        with Admin(store.path) as admin:
            admin.update_topic("audit", reserved_time_h=24)
        eventually(lambda: log_files(store)[0] == end, "a shorter limit lets them go")
        assert first_of(store, "audit") == first_record(store, "audit", 0)


def test_a_limit_by_size_counts_the_topics_own_bytes(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **YOUNG) as store:
        with Admin(store.path) as admin:
            admin.create_topic("small", 3, reserved_size=LOG_FILE)
        mix(store, 30, "small", "other")
        begin = active(store)
        records = [record for record in log_records(store) if record.topic == "small"]

        def bytes_behind(base: int) -> int:
            places = range(base + LOG_FILE, begin)
            return sum(record.total_size for record in records if record.physical_offset in places)

        expired = [base for base in log_files(store) if bytes_behind(base) >= LOG_FILE]
        assert len(expired) > 1
        wanted = first_record(store, "small", expired[-1] + LOG_FILE)
        eventually(lambda: first_of(store, "small") == wanted, "its oldest are hidden")
        assert first_of(store, "other") == first_record(store, "other", 0)


def test_what_a_group_has_not_consumed_of_a_topic(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **{**YOUNG, "file_reserved_time_h": 0}) as store:
        with Admin(store.path) as admin:
            admin.create_topic("jobs", 3, reserved_unconsumed_h=5)
        fill(store, 0, 30, "jobs")
        with GroupConsumer(store.path, "slow", {"jobs": "*"}, start="earliest") as consumer:
            taken = 0
            while taken < 30:
                taken += len(consumer.poll(30, timeout=5))
            consumer.poll(1, timeout=0.1)
            offsets = store.path / "config" / "consumerOffset.json"
            eventually(lambda: b"jobs@slow" in offsets.read_bytes(), "its progress is saved")
            mix(store, 20, "jobs", "other")
            held = explained(store)[0]
            assert held["why"] == "topic"
            assert held["about"] == "a group has not consumed what topic jobs has here; 5 h at most"
            for _ in range(3):
                store.await_beat("clean")
            assert log_files(store)[0] == held["base"]
            while taken < 630:
                taken += len(consumer.poll(100, timeout=5))
            consumer.poll(1, timeout=0.1)
            eventually(lambda: log_files(store)[0] == active(store), "the files go")


def test_what_cannot_be_read_is_kept_and_explained_so(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **YOUNG) as store:
        with Admin(store.path) as admin:
            admin.create_topic("small", 3, reserved_size=100 * LOG_FILE)
        mix(store, 30, "small", "other")
        (store.path / "consumequeue" / "small" / "0" / f"{QUEUE_FILE:020d}").unlink()
        store.replace("clean")
        bases = log_files(store)
        age(store, bases[:3], hours=20)
        for _ in range(3):
            store.await_beat("clean")
        assert files_up_to(store, bases[-1]) == bases
        said = {(file["why"], file["about"], file["when_ms"]) for file in explained(store)[:3]}
        assert said == {("topic", "what topics keep cannot be read", None)}


def test_limits_by_command(store: StoreProcess) -> None:
    said = silo("topics", "create", "t", "--reserved-time-h", "30d", store=store.path).stderr
    assert b"messages are kept for 720 h" in said
    more = ("--reserved-size", "1GiB", "--reserved-unconsumed-h", "0")
    silo("topics", "update", "t", *more, store=store.path)
    shown = silo("topics", "show", "t", store=store.path).stdout.decode()
    assert "kept for 720 h, up to 1,073,741,824 bytes, consumed or not" in shown
    found = json.loads(silo("topics", "show", "t", "--json", store=store.path).stdout)
    assert found["limits"] == {"time_h": 720, "size": 1 << 30, "unconsumed_h": 0}
    silo("topics", "update", "t", "--reserved-time-h", "store", store=store.path)
    with Admin(store.path) as admin:
        assert admin.topic("t").limits == TopicLimits(size=1 << 30, unconsumed_h=0)
        assert [topic.limits for topic in admin.topics() if topic.topic == "t"] == [
            TopicLimits(size=1 << 30, unconsumed_h=0)
        ]
        with pytest.raises(IllegalMessage, match="own"):
            admin.update_topic("SCHEDULE_TOPIC_XXXX", reserved_time_h=1)
    for word in ("x", "-1", "1GiB"):
        done = silo("topics", "update", "t", "--reserved-time-h", word, store=store.path, status=2)
        assert 'or "store"' in done.stderr.decode()
