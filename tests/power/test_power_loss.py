"""Whatever a power cut leaves of the unsynced: the store starts, and keeps what it promised."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from power.images import an_image, cuts
from power.recorded_store import QUEUES, TOPICS, Recorded, known_at_the_cut, small_store
from power.simulator import FOLDER, Disk, events
from power.started_store import check, start
from support.checking.files import check_files
from support.checking.messages import check_store
from support.harness import LONG
from support.load.sender import Sender

from silomq.store.disk.paths import PROGRESS
from silomq.store.errors import StoreError
from silomq.store.recovery import durable_progress
from silomq.store.recovery.durable_progress import SLOT_SIZE
from silomq.store.recovery.power_cut import BOOT

if TYPE_CHECKING:
    from pathlib import Path

    from support.checking.sent import Sent
    from support.harness import StoreProcess

MODES = ("SYNC_FLUSH", "ASYNC_FLUSH")
MESSAGES = 350  # of each of four producers


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    found = {}
    for mode in MODES:
        with Recorded(tmp_path_factory.mktemp(mode), mode, messages=MESSAGES) as recorded:
            found[mode] = recorded
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("mode", "count"),
    [
        ("SYNC_FLUSH", 10),
        ("ASYNC_FLUSH", 8),
        pytest.param("SYNC_FLUSH", 600, marks=LONG),
        pytest.param("ASYNC_FLUSH", 400, marks=LONG),
    ],
)
def test_every_image_starts_and_keeps_its_promises(
    mode: str, count: int, recordings: dict[str, Recorded], tmp_path: Path
) -> None:
    loose = messages = acknowledged = 0
    durable = mode == "SYNC_FLUSH"
    for seed, (cut, disk) in enumerate(cuts(recordings[mode], count, count)):
        sent = known_at_the_cut(disk.said)
        with an_image(disk, seed, tmp_path) as path:
            try:
                found = check(start(path, flush_disk_type=mode), sent, durable=durable)
                # Another cut, that takes nothing: what start-up has done is enough.
                assert check(start(path, flush_disk_type=mode), sent, durable=durable) == found
            except BaseException:
                print(f"{mode}: cut {cut}, seed {seed}")
                raise
        loose += disk.loose_pages() > 0
        messages += found
        acknowledged += len(sent.acks)
    print(f"{mode}: {messages} messages found, {acknowledged} acknowledged, in {count} images")
    assert loose > count / 2, "there was nothing to lose"
    assert messages >= acknowledged or not durable
    assert acknowledged > 100 * count


def test_the_recording_has_what_matters(recordings: dict[str, Recorded]) -> None:
    for recorded in recordings.values():
        made: Counter[str] = Counter()
        whats = Counter(event.what for _, event in events(recorded.recording))
        for _, event in events(recorded.recording):
            if event.what == "create":
                made[event.path.removeprefix(str(recorded.store.path)).split("/")[1]] += 1
        assert made["consumequeue"] > 9
        assert made["index"] > 2
        assert whats["rename"] > 5, "the log rolls"
        assert min(whats[what] for what in ("sync", "sync_range", "sync_folder", "write")) > 3


def test_what_is_durable_lies_in_durable_folders(recordings: dict[str, Recorded]) -> None:
    for recorded in recordings.values():
        disk = Disk(recorded.store.path)
        for at, event in events(recorded.recording):
            disk.apply(at, event)
        files = [path for path, number in disk.durable.items() if number != FOLDER]
        assert sum(path.startswith("consumequeue/") for path in files) > 9
        for path in files:
            parents = path.split("/")[:-1]
            lost = [
                end
                for end in range(1, len(parents))
                if "/".join(parents[: end + 1]) not in disk.durable
            ]
            assert not lost, f"a power cut may take a folder of {path}"


def test_files_that_a_stop_removed_are_gone_before_the_store_runs_again(
    recordings: dict[str, Recorded],
) -> None:
    """Once the record says again that the store runs, a gap between log files is a loss. So no cut
    from then on may bring one of the removed files back without the one before it.
    """
    for recorded in recordings.values():
        disk, removed, runs_again = Disk(recorded.store.path), 0, 0
        for at, event in events(recorded.recording):
            path = event.path.removeprefix(disk.root).lstrip("/")
            disk.apply(at, event)
            removed += event.what == "unlink" and path.startswith("commitlog/")
            if removed and event.what == "sync" and path == f"silomq/{PROGRESS}":
                page = event.contents.get(event.pages[0]) or disk.contents[event.pages[0]]
                slots = [durable_progress.decode(page[n:]) for n in (0, SLOT_SIZE)]
                if not max((slot for slot in slots if slot), key=lambda slot: slot[0])[1].clean:
                    back = {p for p in disk.durable.keys() - disk.entries if "commitlog/" in p}
                    assert not back
                    runs_again += 1
        assert removed > 1
        assert runs_again


@pytest.mark.parametrize("drop", ["sync_range", "sync_folder", "sync"])
def test_a_sync_that_is_not_done_is_found_out(
    drop: str, recordings: dict[str, Recorded], tmp_path: Path
) -> None:
    """The simulator can fail: on a disk that lies about one kind of sync, something is lost."""
    lost = refused = 0
    for seed, (_, disk) in enumerate(cuts(recordings["SYNC_FLUSH"], 25, 5, drop=drop)):
        with an_image(disk, seed, tmp_path) as path:
            try:
                check(start(path), known_at_the_cut(disk.said), durable=True)
            except AssertionError as error:
                lost += "messages are lost" in str(error)
            except (StoreError, OSError):
                refused += 1
    print(f"without {drop}: {lost} images lost messages, {refused} were refused")
    assert lost + refused > 5


def test_the_real_store_goes_on_from_images(
    recordings: dict[str, Recorded], tmp_path: Path
) -> None:
    """Through the supervisor: all that was acknowledged is read, and what is sent afterwards
    survives the next crash, with nothing of what was cut between.
    """
    for mode in MODES:
        for seed, (_, disk) in enumerate(cuts(recordings[mode], 2, 17)):
            sent = known_at_the_cut(disk.said)
            with an_image(disk, seed, tmp_path) as path:
                if (path / "silomq" / BOOT).exists():
                    (path / "silomq" / BOOT).write_text("another boot")
                _go_on(small_store(path, mode), sent)


def _go_on(store: StoreProcess, sent: Sent) -> None:
    durable = store.settings["flush_disk_type"] == "SYNC_FLUSH"
    with store:
        # What the cut took does not come back later.
        there = check_store(store, sent, TOPICS, others=True, may_lose=not durable)
        places = {record.physical_offset for record in there}
        sent.acks = [ack for ack in sent.acks if ack.physical_offset in places]
        sender = Sender(store.path, 9, TOPICS, kind="pages", queues=QUEUES, sent=sent)
        sender.send_window(200)
        sender.close()
        store.crash()
        store.start()
        after = check_store(store, sent, TOPICS, others=True)
        assert len(after) == len(there) + 200
        store.stop()
        check_files(store)
