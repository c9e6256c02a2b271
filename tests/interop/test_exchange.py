"""A store of ours is RocketMQ's: its own DefaultMessageStore opens it after a clean stop and after
a kill, reads every message, answers every look-up, and goes on with it; ours then goes on with
that, and RocketMQ again.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from interop.dump import appended_by_rocketmq, check_dump, messages_in
from interop.index_files import check_index_files, put_again_by_rocketmq
from interop.look_ups import check_keys, check_times, write_queries
from interop.rocketmq import RELEASES, RocketMQ, Said, require
from support.checking.messages import (
    acknowledged,
    check_found,
    queues_of,
    read_topic,
    unanswered,
)
from support.checking.stored import Known, Stored
from support.harness import LONG, StoreProcess, eventually
from support.load.producers import Producers
from support.small_settings import SMALL

from silomq.store.consumequeue.queue import ENTRY_SIZE
from silomq.store.disk.paths import file_name
from silomq.store.record.ids import Host

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.checking.sent import Sent

TOPICS = ("orders", "events-2", "%RETRY%readers", "a")
PRODUCERS = 2
THEIRS = 600  # messages that RocketMQ appends
OURS_AGAIN = 720  # messages that we append to that; a multiple of what one producer's turn sends
#: Messages of the largest store, and of those that change hands.
MANY, SOME = (100_000, 10_000) if os.environ.get("SILOMQ_LONG") == "1" else (20_000, 3_000)
SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
}
#: Small files, every message synced: many files of each kind. RocketMQ names an index file by the
#: millisecond, and loses one of two that it makes in the same: it must take longer to fill one.
TINY: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "max_message_size": 32_000,
    "mapped_file_size_consume_queue": 2_000,
    "max_hash_slot_num": 100,
    "max_index_num": 5_000,
    "flush_disk_type": "SYNC_FLUSH",
}


@dataclass(frozen=True)
class Written:
    """A store that our producers wrote, and what they know about it; never opened itself."""

    path: Path
    settings: dict[str, Any]
    killed: bool
    known: list[Known]
    sent: Sent


def senders(store: StoreProcess, count: int, each: int, first: int = 0) -> Producers:
    """Producer processes that send so many messages each, of all kinds."""
    return Producers(
        store, TOPICS, count=count, first=first, kind="every field", messages=each, ending=True
    )


def write_store(folder: Path, settings: dict[str, Any], *, count: int, killed: bool) -> Written:
    """A store with `count` messages, stopped; or one whose processes were all killed when it had
    as many, with producers under way.
    """
    with StoreProcess(folder / "written", **settings) as store:
        each = count * 4 if killed else count
        with senders(store, PRODUCERS, each // PRODUCERS) as producers:
            if killed:
                # Where the machine is busy, reput may have done nothing yet when all is appended.
                done = ("records", count), ("dispatch_count", count // 2)
                eventually(
                    lambda: all(store.control.load(word) >= least for word, least in done),
                    "messages flow",
                )
                store.crash()
            sent = producers.finish()
        assert sent.errors == []
        assert len(sent.acks) == count or killed
        if not killed:
            store.stop()
    assert (store.path / "abort").exists() == killed
    known = hosted(acknowledged(sent), settings)
    return Written(store.path, {**SMALL, **settings}, killed, known, sent)


def hosted(known: list[Known], settings: dict[str, Any]) -> list[Known]:
    """Messages that our store with these settings took."""
    host = str(Host.of(settings.get("store_host", "127.0.0.1"), 10911))
    return [replace(k, store_host=host) for k in known]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("clean")
    return write_store(folder, SETTINGS, count=MANY, killed=False)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A smaller one, for what takes longer."""
    folder = tmp_path_factory.mktemp("stopped")
    return write_store(folder, SETTINGS, count=SOME, killed=False)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("killed")
    return write_store(folder, SETTINGS, count=SOME, killed=True)


def copy_of(written: Written, folder: Path) -> Path:
    """With the times of the files, as RocketMQ looks at them; a socket cannot be copied."""
    return shutil.copytree(
        written.path, folder / "store", ignore=shutil.ignore_patterns("silomq.sock")
    )


def check_look_ups(said: Said, known: list[Known], release: str, twice: set[int]) -> None:
    assert check_keys(said, known, twice) > 100
    assert check_times(said, known, exact=release.startswith("5.")) > 100


def read(
    written: Written, path: Path, rocketmq: RocketMQ, *then: object
) -> tuple[Said, list[Known]]:
    """RocketMQ opens the store as we left it, which must be right, and goes on as `then` says: what
    it printed, and what is known of the messages now.
    """
    killed = written.killed
    assert not check_index_files(path, written.settings, written.known, set(), killed=killed)
    again = put_again_by_rocketmq(path)
    queries = write_queries(rocketmq.folder / "queries", written.known, sure=again)
    said = rocketmq.run(path, "start", "dump", queries, *then)
    assert said.one("load")["abortFilePresent"] == written.killed
    # A store that was killed may hold what its producers were not told of.
    found = messages_in(said)
    more = unanswered(found, written.known, written.sent, others=killed)
    known = written.known + hosted(more, written.settings)
    check_dump(said, known)
    check_look_ups(said, known, rocketmq.release, again)
    # What was there once when RocketMQ came: who put it twice was RocketMQ.
    theirs = [appended_by_rocketmq(line) for line in said.all("put")]
    found_twice = check_index_files(
        path,
        written.settings,
        known,
        again,
        killed=killed,
        halted="--halt" in then,
        others=theirs,
    )
    assert found_twice == again
    return said, known


def check_consumed(store: StoreProcess, known: Sequence[Known]) -> None:
    """Our consumers read exactly the known messages, every field right."""
    store.await_dispatch()
    views = [view for topic in {k.topic for k in known} for view in read_topic(store.path, topic)]
    check_found([Stored.of_view(view) for view in views], known)


def exchange(
    written: Written,
    folder: Path,
    release: str,
    *,
    theirs: str,
    appends: str = "append",
    crash_again: bool = False,
) -> None:
    """RocketMQ reads the store, `appends` to it and ends as `theirs` says; we read that, append,
    and stop or crash; RocketMQ reads it all again.
    """
    rocketmq = RocketMQ(release, folder, written.settings)
    path = copy_of(written, folder)
    twice = put_again_by_rocketmq(path)
    said, known = read(written, path, rocketmq, appends, THEIRS, 11, theirs)
    if theirs == "stop":
        assert not said.one("stop")["abortFilePresent"]

    known += [appended_by_rocketmq(line) for line in said.all("put")]
    with StoreProcess(path, **written.settings) as store:
        check_consumed(store, known)
        with senders(store, 1, OURS_AGAIN, first=PRODUCERS) as producers:
            ours = hosted(acknowledged(producers.finish()), written.settings)
        assert len(ours) == OURS_AGAIN
        known += ours
        check_consumed(store, known)
        if crash_again:
            store.crash()
        else:
            store.stop()

    # Of what RocketMQ had put twice something may be left; nothing came to that.
    twice = check_index_files(path, written.settings, known, twice, killed=crash_again)
    again = put_again_by_rocketmq(path)
    queries = write_queries(folder / "queries", known, sure=twice | again)
    said = rocketmq.run(path, "start", "dump", queries, "--halt")
    check_dump(said, known)
    check_look_ups(said, known, release, twice | again)
    check_index_files(path, written.settings, known, twice | again, killed=crash_again)


def test_full_queue_files_are_dated_by_their_last_message(clean: Written) -> None:
    """RocketMQ 4 looks for a time in the first file modified then or later."""
    per_file = int(clean.settings["mapped_file_size_consume_queue"]) // ENTRY_SIZE
    full = 0
    for (topic, queue), messages in queues_of(clean.known).items():
        folder = clean.path / "consumequeue" / topic / str(queue)
        for last in messages[per_file - 1 :: per_file]:
            if last is messages[-1]:
                continue  # no message has gone to a next file yet
            first = (last.queue_offset + 1 - per_file) * ENTRY_SIZE
            found = (folder / file_name(first)).stat().st_mtime_ns
            assert found == last.store_timestamp * 1_000_000
            full += 1
    assert full > MANY // 2000


@pytest.mark.parametrize("release", ["5.3.3", pytest.param("4.9.8", marks=LONG)])
def test_rocketmq_reads_many_messages(clean: Written, tmp_path: Path, release: str) -> None:
    require(release)
    rocketmq = RocketMQ(release, tmp_path, clean.settings)
    _, known = read(clean, copy_of(clean, tmp_path), rocketmq, "--halt")
    assert len(known) == MANY


@pytest.mark.parametrize(("release", "theirs"), [("5.3.3", "stop"), ("4.9.8", "--halt")])
def test_stores_change_hands_after_a_clean_stop(
    stopped: Written, tmp_path: Path, release: str, theirs: str
) -> None:
    require(release)
    exchange(stopped, tmp_path, release, theirs=theirs)


@pytest.mark.parametrize("release", ["5.3.3", pytest.param("4.9.8", marks=LONG)])
def test_killed_after_rocketmq_stopped(stopped: Written, tmp_path: Path, release: str) -> None:
    """Nothing but the last seconds is dispatched anew then: the checkpoint and the index files
    must be such that keys of before lead to their messages all the same.
    """
    require(release)
    # RocketMQ dates its checkpoint when it syncs, which it otherwise does every ten seconds.
    settings = {**stopped.settings, "flush_disk_type": "SYNC_FLUSH"}
    written = replace(stopped, settings=settings)
    exchange(written, tmp_path, release, theirs="stop", crash_again=True)


@pytest.mark.parametrize(("release", "theirs"), [("5.3.3", "--halt"), ("4.9.8", "stop")])
def test_stores_change_hands_after_a_kill(
    killed: Written, tmp_path: Path, release: str, theirs: str
) -> None:
    require(release)
    exchange(killed, tmp_path, release, theirs=theirs, crash_again=True)


@pytest.mark.parametrize(
    ("release", "theirs"), [("5.3.3", "--halt"), pytest.param("4.9.8", "stop", marks=LONG)]
)
def test_stores_of_ipv6_hosts_change_hands(tmp_path: Path, release: str, theirs: str) -> None:
    require(release)
    settings = {**SETTINGS, "store_host": "fd00::12:34"}
    written = write_store(tmp_path, settings, count=3_000, killed=False)
    exchange(written, tmp_path, release, theirs=theirs, appends="append6", crash_again=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("theirs", ["stop", "--halt"])
@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    "form",
    [
        pytest.param((SETTINGS, 100_000), marks=LONG, id="small"),
        pytest.param((TINY, 20_000), marks=LONG, id="tiny"),
    ],
)
def test_stores_change_hands_in_every_combination(
    tmp_path: Path, release: str, theirs: str, crash: bool, form: tuple[dict[str, Any], int]
) -> None:
    require(release)
    settings, count = form
    written = write_store(tmp_path, settings, count=count, killed=crash)
    exchange(written, tmp_path, release, theirs=theirs, crash_again=crash)
