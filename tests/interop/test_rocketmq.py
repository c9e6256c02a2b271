"""A store of ours is RocketMQ's: its own DefaultMessageStore opens it after a clean stop and after
a kill, reads every message, answers every look-up, and goes on with it; ours then goes on with
that, and RocketMQ again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from interop.indexes import check_index_files, put_again_by_rocketmq
from interop.knowing import (
    Known,
    check_consumed,
    check_dump,
    of_report,
    of_theirs,
    queues_of,
    unanswered,
)
from interop.lookups import check_keys, check_times, write_queries
from interop.rocketmq import RELEASES, RocketMQ, Said, require
from support.harness import LONG, PYTHON, SMALL, StoreProcess, eventually

from silomq.store.consumequeue.queue import ENTRY_SIZE
from silomq.store.disk.paths import file_name

SENDING = Path(__file__).with_name("sending.py")
PRODUCERS = 2
THEIRS = 600  # messages that RocketMQ appends
OURS_AGAIN = 720  # messages that we append to that; a multiple of what one producer's turn sends
SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20_000,
}
#: The smallest files, every message synced: many files of each kind.
TINY: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "max_message_size": 32_000,
    "mapped_file_size_consume_queue": 2_000,
    "max_hash_slot_num": 100,
    "max_index_num": 500,
    "flush_disk_type": "SYNC_FLUSH",
}


@dataclass(frozen=True)
class Written:
    """A store that our producers wrote, and what they know about it; never opened itself."""

    path: Path
    settings: dict[str, Any]
    killed: bool
    known: list[Known]
    counts: dict[int, int]


class Senders:
    """Producer processes that send `count` messages each."""

    def __init__(self, store: StoreProcess, numbers: range, count: int) -> None:
        folder = store.log_path.parent
        self.reports = [folder / f"report-{number}.json" for number in numbers]
        self.processes = [
            subprocess.Popen(
                [*PYTHON, SENDING, store.path, str(number), str(count), report],
                env=dict(os.environ),
            )
            for number, report in zip(numbers, self.reports, strict=True)
        ]

    def finish(self) -> tuple[list[Known], dict[int, int]]:
        """What was answered, and how many messages each producer sent."""
        try:
            for process in self.processes:
                assert process.wait(60) == 0
        finally:
            for process in self.processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        reports = [json.loads(path.read_text()) for path in self.reports]
        known = [k for path in self.reports for k in of_report(path)]
        return known, {report["producer"]: report["sent"] for report in reports}


def write_store(folder: Path, settings: dict[str, Any], *, count: int, killed: bool) -> Written:
    """A store with `count` messages, stopped; or one whose processes were all killed when it had
    as many, with producers under way.
    """
    with StoreProcess(folder / "written", **settings) as store:
        each = count * 4 if killed else count
        senders = Senders(store, range(PRODUCERS), each // PRODUCERS)
        if killed:
            eventually(lambda: store.control.load("records") >= count, "messages flow")
            store.crash()
        known, counts = senders.finish()
        assert len(known) == count or killed
        if not killed:
            store.stop()
    assert (store.path / "abort").exists() == killed
    return Written(store.path, {**SMALL, **settings}, killed, known, counts)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("clean")
    return write_store(folder, SETTINGS, count=100_000, killed=False)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A smaller one, for what takes longer."""
    folder = tmp_path_factory.mktemp("stopped")
    return write_store(folder, SETTINGS, count=10_000, killed=False)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("killed")
    return write_store(folder, SETTINGS, count=10_000, killed=True)


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
    assert check_index_files(path, written.settings, written.known, set()) == set()
    again = put_again_by_rocketmq(path)
    queries = write_queries(rocketmq.folder / "queries", written.known, sure=again)
    said = rocketmq.run(path, "start", "dump", queries, *then)
    assert said.one("load")["abortFilePresent"] == written.killed
    known = written.known + unanswered(said, written.known, written.counts)
    check_dump(said, known)
    check_look_ups(said, known, rocketmq.release, again)
    # What was there once when RocketMQ came: who put it twice was RocketMQ.
    assert check_index_files(path, written.settings, known, again) == again
    return said, known


def exchange(
    written: Written, folder: Path, release: str, *, theirs: str, crash_again: bool = False
) -> None:
    """RocketMQ reads the store, appends to it and ends as `theirs` says; we read that, append, and
    stop or crash; RocketMQ reads it all again.
    """
    rocketmq = RocketMQ(release, folder, written.settings)
    path = copy_of(written, folder)
    twice = put_again_by_rocketmq(path)
    said, known = read(written, path, rocketmq, "append", THEIRS, 11, theirs)
    if theirs == "stop":
        assert not said.one("stop")["abortFilePresent"]

    known += [of_theirs(line) for line in said.all("put")]
    with StoreProcess(path, **written.settings) as store:
        check_consumed(store, known)
        ours, _ = Senders(store, range(PRODUCERS, PRODUCERS + 1), OURS_AGAIN).finish()
        assert len(ours) == OURS_AGAIN
        known += ours
        check_consumed(store, known, start=min(k.place for k in ours))
        if crash_again:
            store.crash()
        else:
            store.stop()

    # Of what RocketMQ had put twice something may be left; nothing came to that.
    twice = check_index_files(path, written.settings, known, twice)
    again = put_again_by_rocketmq(path)
    queries = write_queries(folder / "queries", known, sure=twice | again)
    said = rocketmq.run(path, "start", "dump", queries, "--halt")
    check_dump(said, known)
    check_look_ups(said, known, release, twice | again)
    check_index_files(path, written.settings, known, twice | again)


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
            assert found == last.stored_ms * 1_000_000
            full += 1
    assert full > 50


@pytest.mark.parametrize("release", RELEASES)
def test_100_000_messages(clean: Written, tmp_path: Path, release: str) -> None:
    require(release)
    rocketmq = RocketMQ(release, tmp_path, clean.settings)
    _, known = read(clean, copy_of(clean, tmp_path), rocketmq, "--halt")
    assert len(known) == 100_000


@pytest.mark.parametrize(("release", "theirs"), [("5.3.3", "stop"), ("4.9.8", "--halt")])
def test_after_a_clean_stop(stopped: Written, tmp_path: Path, release: str, theirs: str) -> None:
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
def test_after_a_kill(killed: Written, tmp_path: Path, release: str, theirs: str) -> None:
    require(release)
    exchange(killed, tmp_path, release, theirs=theirs, crash_again=True)


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
def test_every_combination(
    tmp_path: Path, release: str, theirs: str, crash: bool, form: tuple[dict[str, Any], int]
) -> None:
    require(release)
    settings, count = form
    written = write_store(tmp_path, settings, count=count, killed=crash)
    exchange(written, tmp_path, release, theirs=theirs, crash_again=crash)
