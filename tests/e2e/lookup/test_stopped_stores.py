"""A store that does not run can be listed, tailed and queried: its files show what it served."""

from __future__ import annotations

import json
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from support.commands import sentence, silo
from support.golden_stores import NAMES, unpack
from support.harness import StoreProcess
from support.offline_stores import state

from silomq import Corrupt, IllegalQuery, MessageNotFound, Producer, StoreClosed, StoreReader
from silomq.shm.progress import Progress
from silomq.store.disk.files import Folder
from silomq.store.recovery import durable_progress
from silomq.store.recovery.durable_progress import ProgressFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 500


def fill(store: Path) -> None:
    with Producer(store) as producer:
        for number in range(COUNT):
            producer.send(
                f"topic-{number % 3}", str(number), queue=number % 4, keys=f"k{number % 50}"
            )


def seen(reader: StoreReader) -> dict[str, Any]:
    """All that look-ups find."""
    found: dict[str, Any] = {}
    for topic in ("topic-0", "topic-1", "topic-2"):
        for queue_id in range(reader.read_queues(topic)):
            least, end = reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id)
            messages = []
            while least < end:
                result = reader.get_message(topic, queue_id, least, 32)
                messages += [(m.queue_offset, m.body, m.message_id) for m in result.messages]
                least = result.next_begin_offset
            found[f"{topic}/{queue_id}"] = messages
            found[f"{topic}/{queue_id}/time"] = reader.earliest_time(topic, queue_id)
        found[f"{topic}/k7"] = [m.body for m in reader.by_key(topic, "k7")]
    return found


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    """A stopped store, and what it served while it ran."""
    store = tmp_path_factory.mktemp("stopped") / "store"
    with StoreProcess(store) as running:
        fill(store)
        running.await_dispatch()
        with StoreReader(store) as reader:
            served = seen(reader)
    yield store, served
    shutil.rmtree(store)


def test_the_files_show_what_the_store_served(stopped: tuple[Path, dict[str, Any]]) -> None:
    store, served = stopped
    before = state(store)
    with StoreReader(store, stopped=True) as reader:
        assert seen(reader) == served
        assert reader.undispatched == 0
    assert state(store) == before


def test_a_reader_of_a_stopped_store_has_the_errors_of_a_running_one(
    stopped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    store, _ = stopped
    with pytest.raises(StoreClosed, match="no store runs there"):
        StoreReader(store)
    with pytest.raises(StoreClosed, match="is no store"):
        StoreReader(tmp_path, stopped=True)
    reader = StoreReader(store, stopped=True)
    with reader:
        with pytest.raises(IllegalQuery, match="topic 'no' does not exist"):
            reader.max_offset("no", 0)
        with pytest.raises(IllegalQuery, match="queue 99"):
            reader.max_offset("topic-0", 99)
        with pytest.raises(MessageNotFound):
            reader.look_at(3)
        with pytest.raises(IllegalQuery, match="future"):
            reader.offset_at_time("topic-0", 0, 2**60)
    with pytest.raises(StoreClosed, match="closed"):
        reader.max_offset("topic-0", 0)


def test_a_killed_store_shows_what_is_dispatched_and_counts_the_rest(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with StoreProcess(store) as running:
        fill(store)
        running.await_dispatch()
        with StoreReader(store) as reader:
            served = seen(reader)
        running.crash()
        with StoreReader(store, stopped=True) as reader:
            assert seen(reader) == served
            assert reader.undispatched == 0
        # As after a power cut: what was not durable may have been lost.
        (store / "silomq" / "boot").write_bytes(b"another boot")
        with StoreReader(store, stopped=True) as reader:
            shown = sum(reader.max_offset(f"topic-{t}", q) for t in range(3) for q in range(4))
            assert (shown < COUNT) == (reader.undispatched > 0)
    with StoreProcess(store):
        pass
    with StoreReader(store, stopped=True) as reader:
        assert reader.undispatched == 0
        assert seen(reader) == served


def test_a_killed_store_counts_the_messages_that_were_not_dispatched(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with StoreProcess(store) as running:
        with Producer(store) as producer:
            producer.send("topic-0", "shown", queue=0)
            running.await_dispatch()
            running.kill("reput", signal.SIGSTOP)
            places = [producer.send("topic-0", "x", queue=0).physical_offset for _ in range(5)]
        running.crash()
        with StoreReader(store, stopped=True) as reader:
            assert reader.max_offset("topic-0", 0) == 1
            assert reader.undispatched == 5 * (places[1] - places[0])
        said = silo("topics", store=store).stderr
        assert f"the last {5 * (places[1] - places[0]):,} bytes".encode() in said


def test_a_power_cut_between_progress_record_and_checkpoint_is_known(tmp_path: Path) -> None:
    """The checkpoint is that of the record before: entries that are not durable stay hidden."""
    store = tmp_path / "store"
    with StoreProcess(store) as running:
        with Producer(store) as producer:
            producer.send("topic-0", "shown", queue=0)
        running.await_dispatch()
        running.crash()
        (store / "silomq" / "boot").write_bytes(b"another boot")
        with Folder.open(store / "silomq") as ours:
            record = durable_progress.read(ours)
            assert record is not None
            newer = replace(record, clean=False, progress=Progress(), physic=record.physic + 1)
            ProgressFile(ours).write(newer)
        with StoreReader(store, stopped=True) as reader:
            assert reader.max_offset("topic-0", 0) == 0
            assert reader.undispatched > 0


def test_sizes_of_a_store_of_rocketmqs_alone_are_read_off_its_files(
    stopped: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Of a single log file too, and of an index that is not of the default size."""
    path, served = stopped
    store = tmp_path / "store"
    shutil.copytree(path, store)
    shutil.rmtree(store / "silomq")
    assert len(list((store / "commitlog").iterdir())) == 1
    with StoreReader(store, stopped=True) as reader:
        assert seen(reader) == served
        assert reader.undispatched == 0
    assert silo("tail", "topic-1", "--body-only", store=store).stdout
    found = silo("query", "key", "topic-0", "k0", "--json", store=store).stdout
    assert len(found.splitlines()) == 4
    file = next((store / "commitlog").iterdir())
    os.truncate(file, len(file.read_bytes().rstrip(b"\0")) - 9)
    with pytest.raises(Corrupt, match="of 1073741824 bytes"):
        StoreReader(store, stopped=True)


@pytest.mark.parametrize("name", NAMES)
def test_stores_of_rocketmq_are_read_as_they_lie(name: str, tmp_path: Path) -> None:
    """After RocketMQ's clean stop each queue has what RocketMQ read from it. After its crash some
    entries may be missing, which the next start dispatches.
    """
    golden = unpack(name, tmp_path)
    before = state(golden.path)
    crashed = (golden.path / "abort").exists()
    with StoreReader(golden.path, stopped=True) as reader:
        for line in golden.of("queue"):
            queue = line["topic"], line["queueId"]
            least, end = reader.min_offset(*queue), reader.max_offset(*queue)
            assert least == line["minOffset"]
            assert end == line["maxOffset"] or (crashed and end < line["maxOffset"])
            count = 0
            while least < end:
                result = reader.get_message(*queue, least)
                count += len(result.messages)
                least = result.next_begin_offset
            assert count == line["read"] or crashed
    done = silo("topics", "--json", store=golden.path)
    assert {line["topic"] for line in golden.of("queue")} <= {
        topic["topic"] for topic in json.loads(done.stdout)
    }
    assert state(golden.path) == before


def test_commands_say_that_they_read_files(stopped: tuple[Path, dict[str, Any]]) -> None:
    store, served = stopped
    said = f"silo: no store runs in {store}: these are its files\n".encode()
    done = silo("topics", store=store)
    assert done.stderr == said
    assert b"topic-1" in done.stdout
    shown = json.loads(silo("topics", "show", "topic-1", "--json", store=store).stdout)
    assert shown["queues"][0]["max_offset"] == len(served["topic-1/0"])
    done = silo("tail", "topic-1", "--body-only", store=store)
    assert done.stderr == said
    bodies = [body for queue in range(4) for _, body, _ in served[f"topic-1/{queue}"]]
    assert done.stdout.splitlines() == bodies
    last = silo("tail", "topic-1", "--last", "2", "--body-only", store=store).stdout
    newest = sorted(int(body) for body in bodies)[-2:]
    assert [int(body) for body in last.splitlines()] == newest
    assert silo("tail", "topic-1", "--since", "1h", store=store).stdout.count(b"\n") == len(bodies)
    found = silo("query", "key", "topic-0", "k0", "--json", store=store).stdout
    assert [json.loads(line)["keys"] for line in found.splitlines()] == [["k0"]] * 4
    assert silo("query", "offset", "topic-0", "0", "0", "--body", store=store).stdout
    for command in (["tail", "topic-1", "-f"], ["status"], ["send", "topic-1", "x"], ["groups"]):
        assert "no store runs there" in sentence(silo(*command, store=store, status=1))
