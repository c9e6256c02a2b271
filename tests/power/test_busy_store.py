"""A power cut while everything happens at once: cleaning, deletions, delayed messages, kills."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from power.busy_check import check_busy
from power.busy_store import CANCELLED, DOOMED, KILLED, POOLED, Busy, Known
from power.images import an_image, cuts
from power.simulator import Disk, events
from power.started_store import start_with
from power.steps import Steps, check_entries, durable_slot, is_whole, rows
from support.harness import LONG

from silomq.shm.control import ACTORS
from silomq.store.delay import delays, timers
from silomq.store.disk.paths import PROGRESS
from silomq.store.disk.recording import PAGE
from silomq.store.recovery import durable_progress
from silomq.store.recovery.log_begin import LOG_BEGIN

if TYPE_CHECKING:
    from pathlib import Path

#: The pool needs ASYNC_FLUSH: then nothing acknowledged is durable, but all that is there is right.
MODES: dict[str, dict[str, Any]] = {
    "synced": {"mode": "SYNC_FLUSH"},
    "pooled": {"mode": "ASYNC_FLUSH", **POOLED},
}


class Recordings(dict[str, Busy]):
    """By name, each made when it is asked for."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        super().__init__()
        self.folders = folders

    def __missing__(self, name: str) -> Busy:
        with Busy(self.folders.mktemp(name), **MODES[name]) as recorded:
            self[name] = recorded
        return recorded


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    return Recordings(tmp_path_factory)


def log_begin(disk: Disk) -> int:
    """The begin of the log that clean had written down last."""
    number = disk.entries.get(f"silomq/{LOG_BEGIN}")
    return int(disk.contents[disk.files[number].pages[0][-1]][:20]) if number else 0


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("synced", 6),
        ("pooled", 8),
        pytest.param("synced", 1500, marks=LONG),
        pytest.param("pooled", 700, marks=LONG),
    ],
)
def test_every_image_starts_and_keeps_its_promises(
    name: str, count: int, recordings: Recordings, tmp_path: Path
) -> None:
    recorded = recordings[name]
    for seed, (cut, disk) in enumerate(cuts(recorded, count, count)):
        known = Known.at_the_cut(disk.said)
        with an_image(disk, seed, tmp_path) as path:
            try:
                for _ in range(2):  # the second cut takes nothing: what a start does is enough
                    started = start_with(path, recorded.store.settings)
                    check_busy(started, known, log_begin(disk), durable=name == "synced")
            except BaseException:
                print(f"{name}: cut {cut}, seed {seed}")
                raise


def test_the_recordings_have_what_matters(recordings: Recordings) -> None:
    for recorded in map(recordings.__getitem__, MODES):
        root = str(recorded.store.path)
        removed: Counter[str] = Counter()
        disk = Disk(recorded.store.path)
        for at, event in events(recorded.recording):
            if event.what == "unlink":
                removed["/".join(event.path.removeprefix(root).split("/")[1:3])] += 1
            disk.apply(at, event)
        known = Known.at_the_cut(disk.said)
        whole = Counter(name.partition("/")[0] for name in removed.elements())
        assert min(whole["commitlog"], removed["silomq/seals"], whole["index"]) > 0, removed
        assert removed[f"consumequeue/{DOOMED}"] > 5
        assert known.deleted > 2
        assert len(known.waiting) > 50
        assert sum(known.cancelled.values()) > 10
        assert set(known.delayed.values()) >= {CANCELLED, "far", "level", "timer"}
        said = recorded.store.log_path.read_text()
        assert all(f'"died": "{actor}"' in said for actor in KILLED)
        assert set(KILLED) == set(ACTORS)


# -- what is durable before the next step


@pytest.fixture(params=["synced", "pooled"])
def steps(request: pytest.FixtureRequest, recordings: Recordings) -> Steps:
    return Steps(recordings[request.param])


def test_a_file_has_its_name_when_it_is_durable(steps: Steps) -> None:
    """JSON files, seals, the boot id, the layout; and files of the commit log."""
    seen = set()
    for event, path in steps.play():
        if event.what == "rename" and (path.endswith(".tmp") or "/allocating-" in path):
            file = steps.file(path)
            if file is not None:
                assert is_whole(file), f"{path} becomes {event.to} before it is synced"
                seen.add(event.to.removeprefix(steps.disk.root).split("/")[1:2][0])
    assert seen >= {"commitlog", "config", "silomq"}


def test_a_log_file_is_removed_when_the_new_begin_is_durable(steps: Steps) -> None:
    count = 0
    for event, path in steps.play():
        if event.what == "unlink" and path.startswith("commitlog/"):
            begin = steps.file("silomq/log_begin")
            assert begin is not None
            assert is_whole(begin)
            assert int(steps.durable_bytes(begin)[:20]) > int(path.partition("/")[2])
            count += 1
    assert count


def test_queues_and_index_are_removed_when_log_files_durably_are(steps: Steps) -> None:
    count = 0
    for event, path in steps.play():
        folder, _, rest = path.partition("/")
        kept = folder == "consumequeue" and rest.split("/")[0] != DOOMED and rest.count("/") == 2
        if event.what == "unlink" and (kept or folder == "index"):
            logs = {name for name in steps.disk.durable if name.startswith("commitlog/")}
            assert logs <= steps.disk.entries.keys(), f"{path} is removed too early"
            count += 1
    assert count


def test_a_topics_queues_are_removed_when_its_deletion_is_durable(steps: Steps) -> None:
    count = 0
    for event, path in steps.play():
        if event.what == "unlink" and path.startswith(f"consumequeue/{DOOMED}/"):
            number = steps.disk.durable.get("silomq/deleted")
            assert number, "no deletion is durable"
            found = json.loads(steps.durable_bytes(steps.disk.files[number]))
            assert not found["topics"][DOOMED]["done"], "the deletion before it is durable"
            count += 1
    assert count


def test_an_answered_deletion_is_durable(steps: Steps) -> None:
    count = 0
    for event, _ in steps.play():
        if event.what == "said" and event.said.startswith(b'{"deleted":'):
            assert f"consumequeue/{DOOMED}" not in steps.disk.durable
            count += 1
    assert count


def test_progress_of_deliveries_is_durable_when_the_timers_are(steps: Steps) -> None:
    count = 0
    for event, path in steps.play():
        if event.what != "sync_range" or path != f"silomq/{delays.FILE}":
            continue
        slots = event.contents.get(event.pages[0]) or steps.disk.contents[event.pages[0]]
        newest = durable_slot(slots)
        if newest is None:
            continue
        scan_from, timer_next = newest
        for name, file in steps.files(f"silomq/{timers.FOLDER}"):
            durable = list(rows(steps.durable_bytes(file)))
            for place, row in enumerate(rows(steps.newest_bytes(file))):
                if row[1] >= timer_next or row[3] == 0:
                    break
                assert place < len(durable), f"{name}: {row}"
                assert durable[place][:4] == row[:4], f"{name}: {row}"
                # Marks of later deliveries, and of later cancels, are no part of this progress.
                assert durable[place][4] == row[4] or row[4] > scan_from or row[4] == 1
            count += 1
    assert count


def test_progress_is_durable_when_log_and_queues_are(steps: Steps) -> None:
    count = 0
    for event, path in steps.play():
        if event.what != "sync" or path != f"silomq/{PROGRESS}":
            continue
        page = event.contents.get(event.pages[0]) or steps.disk.contents[event.pages[0]]
        slots = [durable_progress.decode(page[at:]) for at in (0, durable_progress.SLOT_SIZE)]
        whole = [slot for slot in slots if slot is not None]
        if not whole:
            continue
        record = max(whole, key=lambda slot: slot[0])[1]
        assert record.progress.dispatched <= record.flushed
        for name, file in steps.files("commitlog"):
            base = int(name.partition("/")[2])
            end = min(steps.log_file, record.flushed - base)
            for page_number, versions in file.pages.items():
                if (page_number + 1) * PAGE <= end:
                    assert len(versions) == 1, f"{name}, page {page_number} is not durable"
        for name, file in steps.files("consumequeue"):
            if name.count("/") == 3 and not name.startswith(f"consumequeue/{DOOMED}/"):
                check_entries(steps, name, file, record.progress.dispatched)
        count += 1
    assert count
