"""Each small file of a store's state, written twice: a power cut at any step leaves the old or the
new state, and what a writer has returned from is durable.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from power.simulator import Disk, events

from silomq.store.commitlog.seals import Seal, Seals
from silomq.store.config import delay_offsets, offsets, topics
from silomq.store.delay import delays, rocketmq_timers
from silomq.store.disk import files
from silomq.store.disk.paths import StoreFolders
from silomq.store.disk.recording import Recorder
from silomq.store.recovery import checkpoint, durable_progress, layout, log_begin
from silomq.store.recovery.checkpoint import Checkpoint
from silomq.store.recovery.durable_progress import DurableProgress
from silomq.store.recovery.layout import Layout
from silomq.store.topics.deletions import Deletions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Kept(NamedTuple):
    """How a number is written into a file, and read from it; None: there is none."""

    write: Callable[[StoreFolders, int], object]
    read: Callable[[StoreFolders], int | None]


def config(folders: StoreFolders, name: str) -> str:
    return f"{folders.config.path}/{name}"


def write_topics(folders: StoreFolders, number: int) -> None:
    config_of = topics.TopicConfig("topic", number, number)
    topics.save(config(folders, "topics.json"), topics.TopicTable({"topic": config_of}))


def read_topics(folders: StoreFolders) -> int | None:
    found = topics.load(config(folders, "topics.json"))[0].topics.get("topic")
    return found.read_queue_nums if found else None


def write_offsets(folders: StoreFolders, number: int) -> None:
    path = config(folders, "consumerOffset.json")
    offsets.save(path, offsets.GroupOffsets({("topic", "group"): {0: number}}))


def read_offsets(folders: StoreFolders) -> int | None:
    found = offsets.load(config(folders, "consumerOffset.json"))[0]
    return found.get(("topic", "group"), {}).get(0)


def write_seal(folders: StoreFolders, number: int) -> None:
    with Seals(folders) as seals:
        seals.write(0, Seal(number, "00000000", 1, 0, 0, 0, 0))


def read_seal(folders: StoreFolders) -> int | None:
    with Seals(folders) as seals:
        found = seals.read(0)
    return found.size if found else None


def read_deletion(folders: StoreFolders) -> int | None:
    return Deletions.read(folders.ours).below("topic") or None


def read_progress(folders: StoreFolders) -> int | None:
    found = durable_progress.read(folders.ours)
    return found.flushed if found else None


def read_checkpoint(folders: StoreFolders) -> int | None:
    found = checkpoint.read(folders.root)
    return found.confirm_phy_offset if found and found.confirm_phy_offset else None


def read_deliveries(folders: StoreFolders) -> int | None:
    found = delays.ProgressFile(folders.ours).newest(10**9)
    return found.scan_from if found else None


def read_layout(folders: StoreFolders) -> int | None:
    found = layout.read_layout(folders.ours)
    return found.sizes["mapped_file_size_commit_log"] if found else None


KEPT = {
    "layout": Kept(
        lambda folders, n: layout.note_layout(
            folders, Layout(2, {"mapped_file_size_commit_log": n})
        ),
        read_layout,
    ),
    "log_begin": Kept(
        lambda folders, n: log_begin.write(folders.ours, n), lambda f: log_begin.read(f.ours)
    ),
    "progress": Kept(
        lambda folders, n: durable_progress.ProgressFile(folders.ours).write(DurableProgress(n)),
        read_progress,
    ),
    "checkpoint": Kept(
        lambda folders, n: checkpoint.write(folders.root, Checkpoint(0, 0, 0, 0, n)),
        read_checkpoint,
    ),
    "seal": Kept(write_seal, read_seal),
    "deletions": Kept(
        lambda folders, n: Deletions.read(folders.ours).decide("topic", n, 0), read_deletion
    ),
    "deliveries": Kept(
        lambda folders, n: delays.ProgressFile(folders.ours).make_durable(delays.Progress(n)),
        read_deliveries,
    ),
    "timercheck": Kept(
        lambda folders, n: rocketmq_timers.lead_to(folders, n, 0),
        lambda folders: rocketmq_timers.read(folders)["queue_offset"] or None,
    ),
    "delayOffset.json": Kept(
        lambda folders, n: delay_offsets.save(config(folders, "delayOffset.json"), [n], 0, 1),
        lambda folders: delay_offsets.load(config(folders, "delayOffset.json"))[0].get(1),
    ),
    "topics.json": Kept(write_topics, read_topics),
    "consumerOffset.json": Kept(write_offsets, read_offsets),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_cut_leaves_the_old_or_the_new_state(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, recording, root = KEPT[name], tmp_path / "recording", tmp_path / "store"
    root.mkdir()
    written = []
    with monkeypatch.context() as patch:
        patch.setattr(files, "_recorder", Recorder(str(recording)))
        with StoreFolders(root, create=True) as folders:
            for number in (1, 2, 3):
                kept.write(folders, number)
                written.append(sum(1 for _ in events(recording)))
    image = tmp_path / "image"
    for number, (begin, end) in enumerate(pairwise(written), 1):
        for cut in range(begin, end + 1):
            disk = Disk.at(root, recording, cut)
            allowed = {number + 1} if cut == end else {number, number + 1}
            if cut == begin:
                allowed = {number}
            for seed in range(6):
                folder = image / f"{number}-{cut}-{seed}"
                folder.mkdir(parents=True)
                disk.image(random.Random(seed), folder)
                with StoreFolders(folder, create=True) as folders:
                    assert kept.read(folders) in allowed, f"cut {cut} of {begin} to {end}"
