"""Flipped bits and overwritten ranges in any file: an error that says where, or good messages."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from power.recorded_store import TOPICS, small_store
from power.started_store import Started, start
from support.harness import LONG
from support.load.messages import KINDS
from support.load.sender import Sender

from silomq.client.consuming.message_view import MessageView
from silomq.store.commitlog.log_reader import LogReader
from silomq.store.consumequeue.queue import QueueFiles
from silomq.store.consumequeue.queue_reader import QueueReader
from silomq.store.disk.paths import StoreFolders
from silomq.store.disk.recording import files_below
from silomq.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOT_DATA = ("lock", "silomq/boot")
MESSAGES = 240


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A stopped store, and one that crashed."""
    folder = tmp_path_factory.mktemp("damage")
    store = small_store(folder / "crashed", "ASYNC_FLUSH")
    with store:
        fill(store.path, 0)
        store.stop()
        shutil.copytree(store.path, folder / "stopped")
        store.start()
        fill(store.path, 1)
        store.crash()
    (store.path / "silomq.sock").unlink()
    return {name: folder / name for name in ("stopped", "crashed")}


def fill(path: Path, owner: int) -> None:
    sender = Sender(path, owner, TOPICS, kind="pages", queues=2)
    for _ in range(0, MESSAGES, 8):
        sender.send_batch(8)
    sender.close()


@dataclass
class Damage:
    """One case: which file, where, and what with."""

    path: str
    position: int
    data: bytes

    @classmethod
    def chosen(cls, rng: random.Random, root: Path) -> Damage:
        """Mostly in what was written; kinds of files get equal shares."""
        found = [os.path.relpath(path, root) for path in files_below(str(root))]
        found = [name for name in found if name not in NOT_DATA and (root / name).stat().st_size]
        kind = rng.choice(sorted({name.split("/")[0] for name in found}))
        name = rng.choice([name for name in found if name.split("/")[0] == kind])
        old = (root / name).read_bytes()
        written = [i for i in range(0, len(old), 64) if any(old[i : i + 64])] or [0]
        position = min(rng.choice(written) + rng.randrange(64), len(old) - 1)
        if rng.random() < 0.5:
            return cls(name, position, bytes([old[position] ^ 1 << rng.randrange(8)]))
        length = min(rng.choice((2, 4, 8, 20, 100, 512, 4096)), len(old) - position)
        fill_with = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length)))
        return cls(name, position, fill_with)

    def do(self, root: Path) -> None:
        with (root / self.path).open("r+b") as file:
            file.seek(self.position)
            file.write(self.data)


def served(store: Started) -> Iterator[MessageView]:
    """What a reader that checks gets: the messages whose check passes."""
    size = store.settings.mapped_file_size_consume_queue
    with StoreFolders(store.settings.store_path) as folders:
        log = LogReader(folders.commit_log, store.settings.mapped_file_size_commit_log)
        queues = QueueFiles(folders.consume_queue, size)
        for topic in store.table.topics():
            for queue_id, slot in enumerate(topic.slots):
                end = store.table.queue_word(slot, "max_offset").load()
                if end == 0:
                    continue
                with queues.folder(topic.name, queue_id) as folder:
                    yield from _served(log, QueueReader(folder, size), end)


def _served(log: LogReader, reader: QueueReader, end: int) -> Iterator[MessageView]:
    number = 0
    while number < end:
        for entry in reader.entries(number, end - number):
            try:
                view = MessageView(log.record(*entry[:2]), number)
                view.check()
            except (StoreError, FileNotFoundError):
                pass
            else:
                yield view
            number += 1


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("count", "seed"), [(70, 1), pytest.param(10_000, 2, marks=LONG)], ids=["short", "long"]
)
def test_damage_is_an_error_or_does_no_harm(
    count: int, seed: int, stores: dict[str, Path], tmp_path: Path
) -> None:
    outcomes: Counter[str] = Counter()
    for case in range(count):
        rng = random.Random(seed << 32 | case)
        state = rng.choice(("stopped", "crashed"))
        path = tmp_path / "store"
        shutil.copytree(stores[state], path)
        damages = [Damage.chosen(rng, path) for _ in range(rng.choice((1, 1, 1, 3)))]
        for damage in damages:
            damage.do(path)
        try:
            outcomes[one_case(path, new_boot=rng.random() < 0.5)] += 1
        except BaseException:
            print(f"case {case} of seed {seed}: {state}, {damages}")
            raise
        shutil.rmtree(path)
    print(outcomes)
    assert outcomes["all there"] > count / 10
    assert outcomes["refused"] > 0
    assert outcomes["some left out"] > count / 20


def one_case(path: Path, *, new_boot: bool) -> str:
    try:
        store = start(path, new_boot=new_boot)
    except StoreError as error:
        if str(path) not in str(error) and "offset" not in str(error):
            raise AssertionError(f"it does not say where: {error}") from error
        return "refused"
    found = 0
    for view in served(store):
        owner, number, _ = view.body.split(b":", 2)
        assert view.body == KINDS["pages"](int(owner), int(number)).body
        found += 1
    whole = MESSAGES * (1 if not (path / "abort").exists() else 2)
    return "all there" if found >= whole else "some left out"
