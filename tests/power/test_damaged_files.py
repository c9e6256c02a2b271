"""Files of a store that are removed, shortened, swapped, replaced or overwritten: a start refuses
the store and says where, or everything acknowledged is there or raises an error. After a repair
with declared holes all good data is there. A generator chooses files and damage.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from power.recorded_store import TOPICS, small_store
from power.started_store import Started, start
from support import small_settings
from support.harness import LONG, StoreProcess, eventually
from support.load.sender import Sender
from support.small_settings import ROLLING

from silomq.client.consuming.message_view import MessageView
from silomq.store.commitlog.holes import Holes
from silomq.store.commitlog.log_reader import LogReader
from silomq.store.consumequeue.queue import ENTRY_SIZE, QueueFiles
from silomq.store.consumequeue.queue_reader import QueueReader
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.errors import Corrupt, StoreError
from silomq.store.recovery import durable_progress
from silomq.tools.raw.files import BadInput, StoreFiles
from silomq.tools.repair import apply, plan_holes, plan_rebuild

if TYPE_CHECKING:
    from collections.abc import Callable


MESSAGES = 1600
QUEUE_FILE: Final = ROLLING["mapped_file_size_consume_queue"]
LOST: Final = b""
#: (topic, queue id, queue offset) -> body; or LOST for one whose reading raises an error.
Served = dict[tuple[str, int, int], bytes]


@dataclass(frozen=True)
class Left:
    """A store as a run left it, and the messages that were acknowledged."""

    path: Path
    served: Served


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """A store that was stopped, and one that was killed after all was durable."""
    folder = tmp_path_factory.mktemp("files")
    store = small_store(folder / "killed", "SYNC_FLUSH")
    with store:
        fill(store.path, 0)
        store.await_dispatch()
        store.stop()
        shutil.copytree(store.path, folder / "stopped")
        store.start()
        fill(store.path, 1)
        eventually(lambda: is_durable(store), "all is durable")
        store.crash()
    (store.path / "silomq.sock").unlink()
    return {
        name: Left(folder / name, whole(folder / name, folder)) for name in ("stopped", "killed")
    }


def is_durable(store: StoreProcess) -> bool:
    """Whether the progress record counts everything."""
    wrote = store.control.load("wrote")
    with StoreFolders(store.path) as folders:
        found = durable_progress.read(folders.ours)
    return found is not None and found.flushed == found.progress.dispatched == wrote


def fill(path: Path, owner: int) -> None:
    sender = Sender(path, owner, TOPICS, kind="pages", queues=2)
    for _ in range(0, MESSAGES, 8):
        sender.send_batch(8)
    sender.close()


def whole(path: Path, folder: Path) -> Served:
    copy = folder / "whole"
    shutil.copytree(path, copy)
    found = served(start(copy, new_boot=False))
    shutil.rmtree(copy)
    assert len(found) >= MESSAGES
    assert LOST not in found.values()
    return found


def served(store: Started) -> Served:
    """What readers get of each queue offset that the store says it has."""
    size = store.settings.mapped_file_size_consume_queue
    found: Served = {}
    with StoreFolders(store.settings.store_path) as folders:
        log = LogReader(folders.commit_log, store.settings.mapped_file_size_commit_log)
        holes = Holes.read(folders.root)
        queues = QueueFiles(folders.consume_queue, size)
        for topic in store.table.topics():
            for queue_id, slot in enumerate(topic.slots):
                first = store.table.queue_word(slot, "min_offset").load()
                end = store.table.queue_word(slot, "max_offset").load()
                if first < end:
                    with queues.folder(topic.name, queue_id) as folder:
                        reader = QueueReader(folder, size)
                        for number in range(first, end):
                            body = read(log, reader, holes, number)
                            found[topic.name, queue_id, number] = body
    return found


def read(log: LogReader, reader: QueueReader, holes: Holes, number: int) -> bytes:
    try:
        ((at, size, _),) = reader.entries(number, 1)
        if holes.at(at) is not None:
            return LOST
        view = MessageView(log.record(at, size), number)
        view.check()
    except (StoreError, FileNotFoundError):  # clients turn the second into Corrupt
        return LOST
    return bytes(view.body)


# -- damage


def removed(rng: random.Random, file: Path) -> None:
    file.unlink()


def truncated(rng: random.Random, file: Path) -> None:
    size = file.stat().st_size
    os.truncate(file, rng.choice((0, rng.randrange(size), rng.randrange(size) // 4096 * 4096)))


def swapped(rng: random.Random, file: Path) -> None:
    other = rng.choice(sorted(file.parent.iterdir()))
    spare = file.with_name("spare")
    file.rename(spare)
    if other != file:
        other.rename(file)
        spare.rename(other)
    else:
        spare.rename(file)


def flipped(rng: random.Random, file: Path) -> None:
    data = bytearray(file.read_bytes())
    used = len(data.rstrip(b"\0")) or len(data)
    for _ in range(rng.choice((1, 1, 5))):
        data[rng.randrange(used)] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def zeroed(rng: random.Random, file: Path) -> None:
    data = bytearray(file.read_bytes())
    at = rng.randrange(len(data))
    length = min(rng.choice((20, 300, 4096, len(data))), len(data) - at)
    data[at : at + length] = bytes(length)
    file.write_bytes(data)


def extended(rng: random.Random, file: Path) -> None:
    with file.open("ab") as out:
        out.write(rng.randbytes(rng.choice((1, 20, 4096))))


def a_folder(rng: random.Random, file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_link(rng: random.Random, file: Path) -> None:
    moved = next(p for p in file.parents if p.name == "store").parent / f"moved-{file.name}"
    file.rename(moved)
    file.symlink_to(moved)


HARMS: tuple[Callable[[random.Random, Path], None], ...] = (
    removed, truncated, swapped, flipped, zeroed, extended, a_folder, a_link,
)  # fmt: skip


def chosen(rng: random.Random, root: Path) -> Path:
    """A file of the log, of a queue or of the index; each kind gets its share."""
    kind = rng.choice(("commitlog", "commitlog", "consumequeue", "index"))
    return rng.choice([file for file in sorted((root / kind).rglob("*")) if file.is_file()])


def repaired(path: Path) -> None:
    """What an operator does who is refused: first holes, if the log lacks something, then the
    queues and the index.
    """
    settings = small_settings.load(path, ROLLING)
    try:
        steps = plan_holes(str(path), settings)
    except BadInput:  # the log lacks nothing: then it is the queues or the index
        steps = plan_rebuild(StoreFiles(path, settings))
    apply(str(path), settings, steps)


def one_case(rng: random.Random, left: Left, path: Path) -> str:
    shutil.copytree(left.path, path)
    try:
        harmed = []
        for _ in range(rng.choice((1, 1, 1, 2))):
            harm, file = rng.choice(HARMS), chosen(rng, path)
            print(f"{harm.__name__}: {file.relative_to(path)}")  # pytest shows it after a failure
            harm(rng, file)
            harmed.append(file.relative_to(path))
        return outcome(left, path, harmed)
    finally:
        shutil.rmtree(path)
        for moved in path.parent.glob("moved-*"):
            moved.unlink()


def nobody_knows(key: tuple[str, int, int], found: Served, harmed: list[Path]) -> bool:
    """Whether a message and its queue entry were lost together, and no later message of its queue
    says that there was one.
    """
    topic, queue_id, number = key
    base = number * ENTRY_SIZE // QUEUE_FILE * QUEUE_FILE
    entry = Path("consumequeue", topic, str(queue_id), file_name(base))
    later = any(one[:2] == key[:2] and one[2] > number for one in found)
    return entry in harmed and any(file.parts[0] == "commitlog" for file in harmed) and not later


def outcome(left: Left, path: Path, harmed: list[Path]) -> str:
    refused, store = "", None
    try:
        store = start(path, new_boot=False)
    except Corrupt as error:
        refused = str(error)
    if refused:
        assert str(path) in refused, f"it does not say where: {refused}"
        repaired(path)
    found = served(store or start(path, new_boot=False))
    wrong = {key for key, body in found.items() if body != LOST and body != left.served.get(key)}
    assert not wrong, f"other messages than were sent: {sorted(wrong)[:3]}"
    gone = {
        key for key in left.served.keys() - found.keys() if not nobody_knows(key, found, harmed)
    }
    assert not gone, f"{len(gone)} are missing: {sorted(gone)[:3]}"
    lost = sum(body == LOST for body in found.values())
    return f"{'refused, ' if refused else ''}{'some lost' if lost else 'all there'}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("count", "seed"), [(20, 1), pytest.param(3000, 2, marks=LONG)], ids=["short", "long"]
)
def test_damaged_files_are_refused_repaired_or_reported(
    count: int, seed: int, stores: dict[str, Left], tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()
    for case in range(count):
        rng = random.Random(seed << 32 | case)
        print(f"case {case} of seed {seed}")
        left = stores[rng.choice(("stopped", "killed"))]
        outcomes[one_case(rng, left, tmp_path / "store")] += 1
    print(outcomes)
    assert sum(n for name, n in outcomes.items() if name.startswith("refused")) > count / 10
    assert sum(n for name, n in outcomes.items() if name.endswith("all there")) > count / 10
    assert outcomes["refused, some lost"] > 0
