"""A store with declared holes: every reader is told of each hole once, then goes on behind it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.holes import drained
from support.commands import silo
from support.harness import StoreProcess, eventually
from support.small_settings import SMALL, options

from silomq import Admin, Consumer, CorruptRange, GroupConsumer, Producer, StoreReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq import Listener, MessageView

SETTINGS: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 16, "max_message_size": 16384}
SIZE = 1 << 16
SIZES = (
    "mapped_file_size_commit_log", "mapped_file_size_consume_queue", "max_hash_slot_num",
    "max_index_num",
)  # fmt: skip
COUNT = 1600
TOPIC = "orders"


@dataclass(frozen=True)
class Damaged:
    """A store with a missing log file and a damaged record, repaired with holes. `holes` are the
    log offsets, `lost` the queue offsets of each queue that lay in each of them, `copy` the bytes
    of the missing file.
    """

    path: Path
    places: dict[int, list[int]]
    holes: list[tuple[int, int]]
    copy: bytes

    def lost(self, queue: int) -> list[tuple[int, int]]:
        """The queue offsets [first, end) of a queue that each hole holds; none of other holes."""
        found = []
        for start, end in self.holes:
            there = [n for n, at in enumerate(self.places[queue]) if start <= at < end]
            if there:
                found.append((there[0], there[-1] + 1))
        return found

    def bodies(self, queue: int) -> list[bytes]:
        """The bodies of the messages that are left, in order."""
        return [
            b"%d:%d" % (queue, number)
            for number, at in enumerate(self.places[queue])
            if not any(start <= at < end for start, end in self.holes)
        ]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    store = StoreProcess(tmp_path_factory.mktemp("holes") / "store", **SETTINGS)
    places: dict[int, list[int]] = {0: [], 1: []}
    with store:
        with Producer(store.path) as producer:
            for number in range(COUNT):
                queue = number % 2
                body = b"%d:%d" % (queue, len(places[queue]))
                sent = producer.send(TOPIC, body, queue=queue, tags="AB"[number % 3 == 0])
                places[queue].append(sent.physical_offset)
        store.stop()
    missing = store.path / "commitlog" / f"{SIZE:020d}"
    copy = missing.read_bytes()
    missing.unlink()
    victim = places[1][30]
    with (store.path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(victim + 4)
        file.write(b"damaged")
    process = store.launch()
    assert process.wait(60) == 5
    assert f"offsets {SIZE} to {2 * SIZE} are lost" in store.log()
    sizes = {n: v for n, v in {**SMALL, **SETTINGS}.items() if n in SIZES}
    silo("repair", str(store.path), "--holes", "--yes", *options(sizes))
    store.clean_up()
    return Damaged(store.path, places, [(victim, places[0][31]), (SIZE, 2 * SIZE)], copy)


@pytest.fixture
def store(damaged: Damaged, tmp_path: Path) -> Iterator[StoreProcess]:
    shutil.copytree(damaged.path, tmp_path / "store")
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        store.await_dispatch()
        yield store


def check_raised(damaged: Damaged, raised: list[CorruptRange], queues: list[int]) -> None:
    for queue in queues:
        mine = [error for error in raised if error.queue_id == queue]
        assert [error.queue_offsets for error in mine] == damaged.lost(queue)
        assert [(e.start, e.end) for e in mine] == [
            hole
            for hole in damaged.holes
            if any(hole[0] <= at < hole[1] for at in damaged.places[queue])
        ]
        assert all(error.topic == TOPIC for error in mine)
    assert len(raised) == sum(len(damaged.lost(queue)) for queue in queues)


@pytest.mark.parametrize("check_crc", [False, True])
def test_a_time_near_a_hole_passes_over_no_message(store: StoreProcess, *, check_crc: bool) -> None:
    """Lost messages have no times: they count as stored when the next message was."""
    for queue in (0, 1):
        with Consumer(store.path, TOPIC, queues=[queue]) as consumer:
            found, _ = drained(consumer.poll)
        for time_ms in sorted({view.store_timestamp for view in found}):
            wanted = [view.queue_offset for view in found if view.store_timestamp >= time_ms]
            with Consumer(
                store.path, TOPIC, queues=[queue], start=time_ms, check_crc=check_crc
            ) as consumer:
                begin = consumer.positions()[queue]
                later, _ = drained(consumer.poll)
            assert begin <= wanted[0]
            assert [view.queue_offset for view in later] == wanted


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_a_consumer_is_told_of_each_hole_once(
    damaged: Damaged, store: StoreProcess, limit: int
) -> None:
    """All messages before and behind come, at their queue offsets; seeking back tells again."""
    for queue in (0, 1):
        with Consumer(store.path, TOPIC, queues=[queue], check_crc=limit == 7) as consumer:
            found, raised = drained(partial(consumer.poll, limit))
            assert [view.body for view in found] == damaged.bodies(queue)
            assert all(view.body == b"%d:%d" % (queue, view.queue_offset) for view in found)
            check_raised(damaged, raised, [queue])
            assert consumer.missed == 0
            first = damaged.lost(queue)[0][0]
            consumer.seek(queue, first)
            with pytest.raises(CorruptRange):
                consumer.poll()
    with Consumer(store.path, TOPIC) as consumer:
        found, raised = drained(lambda: consumer.poll(limit))
        assert len(found) == len(damaged.bodies(0)) + len(damaged.bodies(1))
        check_raised(damaged, raised, [0, 1])


def test_arrow_batches_tell_of_each_hole_once(damaged: Damaged, store: StoreProcess) -> None:
    pytest.importorskip("pyarrow")
    bodies: list[bytes] = []
    raised: list[CorruptRange] = []
    with Consumer(store.path, TOPIC, queues=[1]) as consumer:
        while True:
            try:
                batch = consumer.poll_arrow(100, columns=["body"])
            except CorruptRange as error:
                raised.append(error)
                continue
            if not batch.num_rows:
                break
            bodies += batch.column("body").to_pylist()
    assert bodies == damaged.bodies(1)
    check_raised(damaged, raised, [1])


@pytest.mark.parametrize("auto_ack", [True, False])
def test_a_group_acknowledges_past_a_hole(
    damaged: Damaged, store: StoreProcess, *, auto_ack: bool
) -> None:
    """The next member of the group is not told again, and no message is left over."""
    raised: list[CorruptRange] = []
    found: list[bytes] = []
    with GroupConsumer(store.path, "readers", TOPIC, start="earliest", auto_ack=auto_ack) as one:
        while len(found) < len(damaged.bodies(0)) + len(damaged.bodies(1)):
            try:
                messages = one.poll(50, 5.0)
            except CorruptRange as error:
                raised.append(error)
                continue
            found += [view.body for view in messages]
            if not auto_ack:
                one.ack(messages)
        assert one.poll(1) == []
    check_raised(damaged, raised, [0, 1])
    assert sorted(found) == sorted(damaged.bodies(0) + damaged.bodies(1))
    with GroupConsumer(store.path, "readers", TOPIC) as other:
        eventually(lambda: other.poll(1) or len(other.assignment) >= 2, "it has its queues")
        assert other.poll(1) == []


def test_tags_do_not_hide_a_hole(damaged: Damaged, store: StoreProcess) -> None:
    """Nobody knows the tags of what was lost, so a filter does not skip it silently."""
    raised: list[CorruptRange] = []
    found = 0
    with GroupConsumer(store.path, "tagged", {TOPIC: "A"}, start="earliest") as one:
        while len(raised) < 3 or found == 0:
            try:
                found += len(one.poll(50, 1.0))
            except CorruptRange as error:
                raised.append(error)
    check_raised(damaged, raised, [0, 1])


def has_ended(listener: Listener, found: list[bytes], wanted: set[bytes]) -> bool:
    return listener.error is not None or set(found) == wanted


def test_a_listener_ends_at_a_hole_and_the_next_one_goes_on(
    damaged: Damaged, store: StoreProcess
) -> None:
    """It ends once the messages before the hole are done, so that no hole is met twice."""
    found: list[bytes] = []
    raised: list[CorruptRange] = []
    wanted = set(damaged.bodies(0)) | set(damaged.bodies(1))

    def heard(view: MessageView) -> None:
        found.append(view.body)

    while len(raised) < 3 or set(found) != wanted:
        with GroupConsumer(store.path, "heard", TOPIC, start="earliest") as one:
            listener = one.listen(heard, concurrency=2)
            ended = partial(has_ended, listener, found, wanted)
            eventually(ended, "it ends, or all messages have come")
            if isinstance(listener.error, CorruptRange):
                raised.append(listener.error)
    check_raised(damaged, raised, [0, 1])


def test_a_reader_of_the_store_is_told(damaged: Damaged, store: StoreProcess) -> None:
    with StoreReader(store.path) as reader:
        for queue in (0, 1):
            found: list[bytes] = []
            raised: list[CorruptRange] = []
            offset = 0
            while offset < len(damaged.places[queue]):
                try:
                    result = reader.get_message(TOPIC, queue, offset, 100)
                except CorruptRange as error:
                    raised.append(error)
                    _, offset = error.queue_offsets or (0, -1)
                    continue
                found += [view.body for view in result.messages]
                offset = result.next_begin_offset
            assert found == damaged.bodies(queue)
            check_raised(damaged, raised, [queue])
        first = damaged.lost(1)[0][0]
        with pytest.raises(CorruptRange, match=f"from queue offset {first} to {first + 1}"):
            reader.at(TOPIC, 1, first)
        for start, end in damaged.holes:
            with pytest.raises(CorruptRange):
                reader.look_at(start)
            assert reader.look_at(next(at for at in damaged.places[0] if at >= end)).body


def test_tail_says_what_is_lost_and_goes_on(damaged: Damaged, store: StoreProcess) -> None:
    done = silo("tail", TOPIC, "--queue", "1", "--body-only", store=store.path)
    assert done.stdout.split() == damaged.bodies(1)
    assert done.stderr.count(b"commit log is corrupt from offset") == 2


def test_the_store_goes_on_behind_its_holes(damaged: Damaged, store: StoreProcess) -> None:
    """New messages get the next queue offsets; a start after a kill, too, takes the store."""
    with Producer(store.path) as producer:
        assert producer.send(TOPIC, b"new", queue=0).queue_offset == len(damaged.places[0])
    store.await_dispatch()
    store.crash()
    store.start()
    store.await_dispatch()
    with Consumer(store.path, TOPIC, queues=[0]) as consumer:
        found, raised = drained(lambda: consumer.poll(100))
    assert [view.body for view in found] == [*damaged.bodies(0), b"new"]
    check_raised(damaged, raised, [0])


def test_a_damaged_declaration_is_refused(damaged: Damaged, tmp_path: Path) -> None:
    """Without it nobody could tell stand-ins from messages."""
    shutil.copytree(damaged.path, tmp_path / "store")
    for name in ("holes.json", "holes.json.bak"):
        (tmp_path / "store" / name).write_text("{")
    store = StoreProcess(tmp_path / "store", **SETTINGS)
    process = store.launch()
    assert process.wait(60) == 5
    assert "holes.json" in store.log()
    store.clean_up()


def all_read(store: Path, queue: int) -> tuple[list[bytes], list[CorruptRange]]:
    """The bodies of a queue, from its first one on, and the holes."""
    with Consumer(store, TOPIC, queues=[queue]) as consumer:
        found, raised = drained(consumer.poll)
        return [view.body for view in found], raised


def truncated(damaged: Damaged, path: Path) -> bytes:
    """Makes a copy of the store at `path`, ends its log before both holes, and returns the
    declaration that it had.
    """
    shutil.copytree(damaged.path, path)
    declared = (path / "holes.json").read_bytes()
    at = damaged.places[0][20]
    done = silo("repair", str(path), "--truncate-at", str(at), "--yes")
    assert b"drop holes from holes.json, which then says: nothing is lost" in done.stderr
    return declared


@pytest.mark.parametrize("cut_short", [False, True])
def test_messages_that_land_where_a_hole_was_cut_off_are_read(
    damaged: Damaged, tmp_path: Path, *, cut_short: bool
) -> None:
    """Also if the repair was cut short before it dropped the holes: then the start drops them."""
    path = tmp_path / "store"
    declared = truncated(damaged, path)
    if cut_short:
        (path / "holes.json").write_bytes(declared)
    bodies = [b"new %d" % number for number in range(COUNT)]
    with StoreProcess(path, **SETTINGS) as store:
        with Admin(path) as admin:
            notes = "; ".join(admin.status()["start_up"]["notes"])
        assert ("their declaration was dropped" in notes) == cut_short
        with Producer(path) as producer:
            ends = [producer.send(TOPIC, body, queue=0).physical_offset for body in bodies]
        assert ends[-1] > damaged.holes[-1][0]
        store.await_dispatch()
        found, raised = all_read(path, 0)
        assert found == damaged.bodies(0)[:20] + bodies
        assert raised == []


def test_a_hole_whose_file_is_restored_is_dropped_by_a_rebuild(
    damaged: Damaged, tmp_path: Path
) -> None:
    """Its messages are read again; the other hole stays declared."""
    path = tmp_path / "store"
    shutil.copytree(damaged.path, path)
    start, end = damaged.holes[0]
    (path / "commitlog" / f"{SIZE:020d}").write_bytes(damaged.copy)
    done = silo("repair", str(path), "--rebuild", "--yes")
    assert b"which then says: offsets %d to %d are lost" % (start, end) in done.stderr
    with StoreProcess(path, **SETTINGS) as store:
        store.await_dispatch()
        for queue in (0, 1):
            found, raised = all_read(path, queue)
            lost = [n for n, at in enumerate(damaged.places[queue]) if start <= at < end]
            count = len(damaged.places[queue])
            assert found == [b"%d:%d" % (queue, n) for n in range(count) if n not in lost]
            assert [(e.start, e.end) for e in raised] == [(start, end)] * len(lost)
