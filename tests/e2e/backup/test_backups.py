"""`silo backup` of stores that run: under load, kills, cleaning and deletions."""

from __future__ import annotations

import itertools
import json
import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.backups import back_up, bodies, check_sound, numbers, send, tree
from support.checking.messages import check_store, read_topic
from support.cleaned_stores import fill
from support.commands import silo
from support.harness import StoreProcess, eventually
from support.load.producers import Producers
from support.small_disks import small_disk
from support.small_settings import ALWAYS, SMALL

from silomq import Admin, GroupConsumer, Producer
from silomq.cli.offline import backup as commands
from silomq.tools.backup import make
from silomq.tools.backup.copier import Copier
from silomq.tools.backup.state import copy_late

TOPICS = ("alpha", "beta", "gamma")
LOG_FILE = 1 << 20


def test_a_backup_is_a_store_and_the_next_one_is_small(tmp_path: Path) -> None:
    into = tmp_path / "backups"
    with StoreProcess(tmp_path / "store") as store:
        send(store.path, 0, 5000)
        eventually(  # then it is linked
            lambda: store.control.load("flushed") >= LOG_FILE, "the first file is flushed"
        )
        first = back_up(store.path, into)
        assert check_sound(first) == 5000
        kept = tree(first)
        send(store.path, 5000, 1000)
        second = back_up(store.path, into, "--verify")
        assert check_sound(second) == 6000
        assert tree(first) == kept, "the first backup is as it was"
    source = store.path / "commitlog" / f"{0:020d}"
    assert source.stat().st_ino == (first / "commitlog" / source.name).stat().st_ino
    assert silo("backups", str(into)).stdout.decode().splitlines()[0].startswith(first.name)
    # Both come back, and go on.
    for name, count in ((first.name, 5000), (second.name, 6000)):
        silo("restore", str(into), str(tmp_path / name), "--at", name)
        with StoreProcess(tmp_path / name) as restored:
            found = [n for topic in TOPICS for n in numbers(bodies(restored.path, topic))]
            assert sorted(found) == list(range(count))
            send(restored.path, count, 100)
    assert tree(first) == kept


def test_another_file_system_gets_copies_once(tmp_path: Path) -> None:
    often = {"flush_interval_consume_queue_ms": 30, "flush_consume_queue_thorough_interval_ms": 100}
    with (
        small_disk(tmp_path / "disk", 64 << 20) as disk,
        StoreProcess(tmp_path / "store", base={**SMALL, **often}) as store,
    ):
        send(store.path, 0, 5000)
        seals, rounds = store.path / "silomq" / "seals", itertools.count(5000)

        def are_sealed() -> bool:
            send(store.path, next(rounds), 1)  # flush makes one seal in each of its rounds
            return len(list(seals.glob("*.json"))) >= 3

        eventually(are_sealed, "the files are sealed")
        first = json.loads(silo("backup", str(store.path), str(disk / "b"), "--json").stdout)
        second = json.loads(silo("backup", str(store.path), str(disk / "b"), "--json").stdout)
        assert "linked" not in first["files"]
        assert second["files"]["reused"] >= 3
        assert second["copied_bytes"] < first["copied_bytes"] - 3 * LOG_FILE
        assert check_sound(Path(second["backup"])) == next(rounds)


def test_under_load_and_kills(tmp_path: Path) -> None:
    """Whatever was answered before a backup began is in it, once and in order."""
    with StoreProcess(tmp_path / "store") as store:
        load = Producers(store, TOPICS, rate=2000)
        load.await_flow()
        wrote, made = [], []
        for actor in ("append", "reput", "flush", "registry", "clean"):
            wrote.append(store.control.load("wrote"))
            killer = threading.Timer(0.05, store.kill, [actor])
            killer.start()
            made.append(back_up(store.path, tmp_path / "backups"))
            killer.join()
            eventually(store.all_ready, "the actor is replaced")
        sent = load.finish()
        check_store(store, sent, TOPICS)
    end = 0
    for least, backup in zip(wrote, made, strict=True):
        check_sound(backup)
        end = json.loads((backup / "backup.json").read_bytes())["end"]
        assert end >= least
    silo("restore", str(tmp_path / "backups"), str(tmp_path / "restored"))
    with StoreProcess(tmp_path / "restored") as restored:
        acks = [ack for ack in sent.acks if ack.physical_offset < end]
        places = {
            view.physical_offset for topic in TOPICS for view in read_topic(restored.path, topic)
        }
        assert {ack.physical_offset for ack in acks} <= places


def test_cleaning_meanwhile(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **ALWAYS) as store:
        sent = 0
        for _ in range(6):
            sent = fill(store, sent, 1200)
            backup = back_up(store.path, tmp_path / "backups", "--keep", "2")
            check_sound(backup)
        assert len(os.listdir(tmp_path / "backups")) == 4  # lock, mark, two backups
        assert store.control.load("min_offset") > 0


def test_deleted_topics_stay_deleted(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        send(store.path, 0, 300)
        stop = threading.Event()

        def make_and_delete() -> None:
            with Admin(store.path) as admin, Producer(store.path) as producer:
                for number in range(10_000):
                    producer.send(f"short{number}", b"x")
                    admin.delete_topic(f"short{number}")
                    if stop.wait(0.4):
                        return

        other = threading.Thread(target=make_and_delete)
        other.start()
        try:
            made = [back_up(store.path, tmp_path / "backups") for _ in range(4)]
        finally:
            stop.set()
            other.join()
    for backup in made:
        check_sound(backup)
    silo("restore", str(made[-1]), str(tmp_path / "restored"))
    with StoreProcess(tmp_path / "restored") as restored, Admin(restored.path) as admin:
        short = [each.topic for each in admin.topics() if each.topic.startswith("short")]
        assert len(short) <= 1, "at most the topic that was not deleted yet"


def test_a_topic_deleted_right_after_the_deletions_were_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy does not know of that deletion, so it is made anew."""
    with StoreProcess(tmp_path / "store") as store, Admin(store.path) as admin:
        send(store.path, 0, 300)
        with Producer(store.path) as producer:
            producer.send("short", b"x")
        tries = 0

        def copy(copier: Copier) -> None:
            nonlocal tries
            copy_late(copier)
            tries += 1
            if tries == 1:
                admin.delete_topic("short")

        monkeypatch.setattr(make, "copy_late", copy)
        done = CliRunner().invoke(commands.backup, [str(store.path), str(tmp_path / "backups")])
        assert done.exit_code == 0, done.output
        assert tries == 2
        check_sound(Path(done.stdout.strip()))


def test_groups_and_delayed_messages_come_back(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        send(store.path, 0, 300)
        with Producer(store.path) as producer:
            producer.send("later", b"delayed", delay_ms=3_600_000)
            producer.send("later", b"soon", delay_ms=200)
        with GroupConsumer(store.path, "readers", "alpha", start="earliest") as group:
            seen = 0
            while seen < 60:
                for view in group.poll(20, timeout=5.0):
                    group.ack(view)
                    seen += 1
            eventually(lambda: bodies(store.path, "later") == [b"soon"], "it was delivered")
            back_up(store.path, tmp_path / "backups")
    silo("restore", str(tmp_path / "backups"), str(tmp_path / "restored"))
    with StoreProcess(tmp_path / "restored") as restored:
        assert bodies(restored.path, "later") == [b"soon"], "it is not delivered again"
        with GroupConsumer(restored.path, "readers", "alpha", start="earliest") as group:
            left = 0
            while messages := group.poll(50, timeout=2.0):
                left += len(messages)
                for view in messages:
                    group.ack(view)
            assert left == 100 - seen
        assert restored.control.load("schedule_floor") < restored.control.load("wrote"), (
            "the other one waits"
        )
