"""RocketMQ's stores, served by a real one: the reader answers as RocketMQ would, and rightly."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support import golden_stores, offline_stores
from support.harness import StoreProcess

from silomq import IllegalQuery, StoreReader
from silomq.store.config import delay_offsets
from silomq.store.names import SCHEDULE_TOPIC
from silomq.store.record.format import TRANSACTION_ROLLBACK
from silomq.store.record.properties import UNIQ_KEY, index_keys
from silomq.tools.rocketmq.manifest import KeyQuery, TimeQuery, manifest
from silomq.tools.rocketmq.view import StoreView

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": golden_stores.LOG_FILE_SIZE,
    "mapped_file_size_consume_queue": golden_stores.QUEUE_FILE_SIZE,
    "max_hash_slot_num": golden_stores.INDEX_SLOTS,
    "max_index_num": golden_stores.INDEX_ENTRIES,
    "max_message_size": 16384,
}


@dataclass(frozen=True)
class Served:
    """A golden store that runs, what RocketMQ answers in the state that our start brought it to,
    and the first message that its index knows.
    """

    store: golden_stores.Golden
    reader: StoreReader
    lines: list[dict[str, Any]]
    indexed_from: int

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["kind"] == kind]


def hold_back_delayed(store: golden_stores.Golden) -> None:
    """Says that all delayed messages were delivered: to deliver them would change the store."""
    ends = [0] * 18
    for line in store.of("queue"):
        if line["topic"] == SCHEDULE_TOPIC:
            ends[line["queueId"]] = line["maxOffset"]
    folder = store.path / "config"
    folder.mkdir(exist_ok=True)
    delay_offsets.save(folder / delay_offsets.FILE_NAME, ends, 0, 1)


@pytest.fixture(scope="module", params=golden_stores.NAMES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    found = offline_stores.unpack(request.param, tmp_path_factory.mktemp("golden"))
    hold_back_delayed(found)
    times = [TimeQuery(x["topic"], x["queueId"], x["ts"]) for x in found.of("time")]
    names = ("topic", "key", "maxNum", "begin", "end")
    keys = [KeyQuery(*(line[name] for name in names)) for line in found.of("key")]
    process = StoreProcess(found.path, **SETTINGS)
    with process:
        pass  # dispatches what a crash left: not from where RocketMQ would begin
    view = StoreView(found.path, offline_stores.settings())
    lines = [json.loads(line) for line in manifest(view, times, keys)]
    indexed_from = view.index.files[0].begin_offset
    view.close()
    with process, StoreReader(found.path) as reader:
        yield Served(found, reader, lines, indexed_from)


def test_the_untouched_store_answers_as_it_did(served: Served) -> None:
    """RocketMQ's own answers hold; but a start after a crash writes to files that are looked at by
    their time of modification.
    """
    same = [served.of(kind) == served.store.of(kind) for kind in ("time", "key")]
    assert same == [served.store.name != "crashed", True]


def messages_of(served: Served) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The messages of each queue that the store serves, in order."""
    found = defaultdict(list)
    for message in served.of("msg"):
        if message.get("cq"):
            found[message["topic"], message["queueId"]].append(message)
    return found


def test_get_message_gives_every_message(served: Served) -> None:
    reader = served.reader
    for (topic, queue_id), messages in messages_of(served).items():
        at = reader.min_offset(topic, queue_id)
        got = []
        while (result := reader.get_message(topic, queue_id, at)).messages:
            got += result.messages
            at = result.next_begin_offset
        assert result.status.name == "OFFSET_OVERFLOW_ONE"
        assert [(v.queue_offset, v.physical_offset, len(v.raw_body)) for v in got] == [
            (m["queueOffset"], m["commitLogOffset"], m["bodyLen"]) for m in messages
        ]
        assert reader.max_offset(topic, queue_id) == at
        assert reader.earliest_time(topic, queue_id) == messages[0]["storeTimestamp"]


def test_messages_by_their_ids(served: Served) -> None:
    for message in served.of("msg")[::7]:
        found = served.reader.by_offset_message_id(message["msgId"])
        assert found.physical_offset == message["commitLogOffset"]
        assert found.properties == message["properties"]


def test_keys_lead_where_rocketmq_says(served: Served) -> None:
    indexed = [
        m
        for m in served.of("msg")
        if m["sysFlag"] & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK
        and m["commitLogOffset"] >= served.indexed_from
    ]
    by_key: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for message in indexed:
        for key in set(index_keys(message["properties"])):
            by_key[message["topic"], key].append(message)
    topics = {message["topic"] for message in served.of("msg")}
    for line in served.of("key"):
        topic, key, most, begin, end = (
            line[name] for name in ("topic", "key", "maxNum", "begin", "end")
        )
        right = [
            m["commitLogOffset"] for m in by_key[topic, key] if begin <= m["storeTimestamp"] <= end
        ]
        if topic in topics:
            found = served.reader.by_key(topic, key, most, begin, end)
            assert [view.physical_offset for view in found] == right[-most:]
        else:
            with pytest.raises(IllegalQuery, match="does not exist"):
                served.reader.by_key(topic, key, most, begin, end)
        theirs = served.reader.by_key(topic, key, most, begin, end, rocketmq=True)
        assert [view.physical_offset for view in theirs] == line["offsets"], line


def test_unique_keys_lead_where_rocketmq_says(served: Served) -> None:
    asked = 0
    for message in served.of("msg")[::11]:
        key = message["properties"].get(UNIQ_KEY)
        if (
            key
            and message["sysFlag"] & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK
            and message["commitLogOffset"] >= served.indexed_from
        ):
            found = served.reader.by_unique_key(message["topic"], key)
            assert [view.physical_offset for view in found] == [
                m["commitLogOffset"]
                for m in served.of("msg")
                if m["topic"] == message["topic"]
                and m["properties"].get(UNIQ_KEY) == key
                and m["sysFlag"] & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK
            ]
            asked += 1
    assert asked


def test_times_lead_where_rocketmq_says(served: Served) -> None:
    reader = served.reader
    of_queue = messages_of(served)
    for line in served.of("time"):
        topic, queue_id, asked = line["topic"], line["queueId"], line["ts"]
        theirs = reader.offset_at_time(topic, queue_id, asked, rocketmq=True)
        assert theirs == line["offset"], line
        times = [m["storeTimestamp"] for m in of_queue[topic, queue_id]]
        if not times:
            with pytest.raises(IllegalQuery, match=r"does not exist|it has queues"):
                reader.offset_at_time(topic, queue_id, asked)
            continue
        first = of_queue[topic, queue_id][0]["queueOffset"]
        later = [i for i, time in enumerate(times, first) if time >= asked]
        wanted = min(later, default=first + len(times))
        assert reader.offset_at_time(topic, queue_id, asked) == wanted
