"""The reader against a real store: every status, limits and filters, look-ups, bad questions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.files import log_records
from support.cleaned_stores import await_cleaned, await_durable, fill, queues_are_clean
from support.harness import StoreProcess, eventually
from support.small_settings import BY_HAND

from silomq import (
    Admin,
    GetMessageStatus,
    IllegalQuery,
    Message,
    MessageNotFound,
    Producer,
    StoreReader,
)
from silomq.store.filters.tags import sql_filter, tag_filter
from silomq.store.record.javahash import tags_code

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq import MessageView

FOREVER = 2**63 - 1
QUEUE_ENTRIES = 40960 // 20


@dataclass(frozen=True)
class Tag:
    """Takes the messages of one tag."""

    tag: str

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({tags_code(self.tag)})

    def matches(self, message: MessageView, /) -> bool:
        return message.tags == self.tag


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path_factory.mktemp("reader") / "store") as found:
        with Producer(found.path, timeout=10.0) as producer:
            for i in range(200):
                producer.send(
                    "orders",
                    b"%d" % i,
                    tags=("Aa", "BB")[i % 2],
                    keys=f"all k{i % 10}",
                    queue=i % 2,
                )
            producer.send("large", b"x" * 200_000, queue=0)
            producer.send("large", b"x" * 200_000, queue=0)
            producer.send_batch("many", [Message(b"-") for _ in range(1000)], queue=0)
            producer.send_batch("many", [Message(b"-") for _ in range(1000)], queue=0)
            producer.send_batch("many", [Message(b"-", tags="late") for _ in range(100)], queue=0)
        with Admin(found.path) as admin:
            admin.create_topic("empty", 3)
        found.await_dispatch()
        yield found


@pytest.fixture
def reader(store: StoreProcess) -> Iterator[StoreReader]:
    with StoreReader(store.path) as found:
        yield found


def status_of(reader: StoreReader, *question: Any) -> tuple[str, int, int, int]:
    result = reader.get_message(*question)
    assert (result.status is GetMessageStatus.FOUND) == bool(result.messages)
    return result.status.name, result.next_begin_offset, result.min_offset, result.max_offset


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        (("empty", 0, 0), ("NO_MESSAGE_IN_QUEUE", 0, 0, 0)),
        (("empty", 2, 77), ("NO_MESSAGE_IN_QUEUE", 0, 0, 0)),
        (("empty", 3, 0), ("NO_MATCHED_LOGIC_QUEUE", 0, 0, 0)),
        (("orders", 0, 100), ("OFFSET_OVERFLOW_ONE", 100, 0, 100)),
        (("orders", 0, 101), ("OFFSET_OVERFLOW_BADLY", 100, 0, 100)),
        (("orders", 0, 0), ("FOUND", 32, 0, 100)),
        (("orders", 1, 90, 5), ("FOUND", 95, 0, 100)),
        (("orders", 1, 99), ("FOUND", 100, 0, 100)),
        (("large", 0, 0), ("FOUND", 1, 0, 2)),
    ],
)
def test_every_status_of_get_message(
    reader: StoreReader, question: tuple[Any, ...], wanted: tuple[str, int, int, int]
) -> None:
    assert status_of(reader, *question) == wanted


def test_messages_are_whole_and_in_order(reader: StoreReader) -> None:
    result = reader.get_message("orders", 1, 10, 7)
    assert [view.queue_offset for view in result.messages] == list(range(10, 17))
    assert [view.body for view in result.messages] == [b"%d" % (2 * i + 1) for i in range(10, 17)]


def test_filters_match_by_tag_and_by_sql(reader: StoreReader) -> None:
    result = reader.get_message("orders", 0, 0, filter=Tag("Aa"))
    assert (result.status, len(result.messages)) == (GetMessageStatus.FOUND, 32)
    # "BB" has the hash of "Aa": the queue lets it through, the message does not.
    result = reader.get_message("orders", 0, 0, filter=Tag("BB"))
    assert (result.status.name, result.next_begin_offset) == ("NO_MATCHED_MESSAGE", 100)
    result = reader.get_message("orders", 1, 0, 3, filter=tag_filter("cc || BB"))
    assert [view.tags for view in result.messages] == ["BB"] * 3
    result = reader.get_message("orders", 0, 0, 3, filter=sql_filter("TAGS = 'Aa'"))
    assert [view.queue_offset for view in result.messages] == [0, 1, 2]
    # 800 entries are looked at in one read, or as many as messages are asked for.
    result = reader.get_message("many", 0, 0, filter=Tag("late"))
    assert (result.status.name, result.next_begin_offset) == ("NO_MATCHED_MESSAGE", 800)
    result = reader.get_message("many", 0, 0, 1500, filter=Tag("late"))
    assert (result.status.name, result.next_begin_offset) == ("NO_MATCHED_MESSAGE", 1500)
    # A read ends with its queue file.
    result = reader.get_message("many", 0, 2000, filter=Tag("late"))
    assert (result.status.name, result.next_begin_offset) == ("FOUND", 2000 + 32)
    result = reader.get_message("many", 0, 2040)
    assert result.next_begin_offset == QUEUE_ENTRIES
    assert len(result.messages) == QUEUE_ENTRIES - 2040


def test_what_cleaning_removed_has_a_status(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **BY_HAND) as store, StoreReader(store.path) as reader:
        sent = fill(store, 0, 900)
        old = reader.get_message("alpha", 0, 0, 1).messages[0]
        key = old.message_id
        assert key is not None
        end = reader.max_offset("alpha", 0)
        early = old.store_timestamp
        await_durable(store)
        with Admin(store.path) as admin:
            admin.clean()
        await_cleaned(store)
        eventually(lambda: queues_are_clean(store), "queue files go")
        least = reader.min_offset("alpha", 0)
        assert 0 < least < end
        assert status_of(reader, "alpha", 0, 0) == ("OFFSET_TOO_SMALL", least, least, end)
        assert status_of(reader, "alpha", 0, least - 1)[:2] == ("OFFSET_TOO_SMALL", least)
        assert reader.get_message("alpha", 0, least).messages[0].queue_offset == least
        assert old.body == b"0:0:"  # what was read stays readable
        with pytest.raises(MessageNotFound, match="was removed"):
            reader.look_at(old.physical_offset)
        with pytest.raises(MessageNotFound, match="was removed"):
            reader.by_offset_message_id(old.offset_message_id)
        with pytest.raises(IllegalQuery, match=f"offsets {least} to {end - 1} .older"):
            reader.at("alpha", 0, 0)
        assert reader.by_unique_key("alpha", key) == []
        assert reader.by_key("alpha", "k0") == []
        assert reader.offset_at_time("alpha", 0, early) == least
        with pytest.raises(MessageNotFound):
            reader.offset_at_time("alpha", 0, early - 1, "upper")
        assert reader.offset_at_time("alpha", 0, early, rocketmq=True) == least
        first = reader.at("alpha", 0, least)
        assert reader.earliest_time("alpha", 0) == first.store_timestamp
        records = log_records(store)
        assert reader.min_physical_offset() == records[0].physical_offset
        assert reader.earliest_store_time() == records[0].store_timestamp
        last = sent - 1
        found = reader.by_key("alpha", f"k{last}")
        assert [view.queue_id for view in found] == [last % 3]


def test_messages_that_go_while_a_queue_still_names_them(tmp_path: Path) -> None:
    """What clean does first is move the limits: here only the commit log's has moved."""
    with StoreProcess(tmp_path / "store", **BY_HAND) as store, StoreReader(store.path) as reader:
        fill(store, 0, 900)
        entry = reader.get_message("alpha", 0, 0, 1).messages[0]
        assert entry.physical_offset == 0
        reader._log = ServedFrom(reader._log, 65536)  # type: ignore[assignment]
        result = reader.get_message("alpha", 0, 0, 10)
        assert result.status is GetMessageStatus.FOUND  # it goes on in the next file
        assert result.messages[0].physical_offset >= 65536
        assert result.messages[0].queue_offset == result.next_begin_offset - 10
        reader._log = ServedFrom(reader._log, 1 << 40)  # type: ignore[assignment]
        result = reader.get_message("alpha", 0, 0)
        assert result.status is GetMessageStatus.MESSAGE_WAS_REMOVING
        assert result.next_begin_offset == min(100, result.max_offset)


class ServedFrom:
    """A log whose front has gone up to `least`."""

    def __init__(self, log: Any, least: int) -> None:
        self._log = log
        self._least = least

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def part(self, at: int, size: int) -> bytes | None:
        found: bytes | None = None if at < self._least else self._log.part(at, size)
        return found


def test_ids_and_times_lead_to_what_a_scan_finds(store: StoreProcess, reader: StoreReader) -> None:
    records = log_records(store)
    assert reader.max_physical_offset() == store.control.load("wrote")
    assert reader.min_physical_offset() == 0
    assert reader.earliest_store_time() == records[0].store_timestamp
    assert reader.earliest_time("empty", 0) is None
    assert (reader.min_offset("orders", 1), reader.max_offset("orders", 1)) == (0, 100)
    for record in records[:200:7]:
        for found in (
            reader.look_at(record.physical_offset),
            reader.by_offset_message_id(record.offset_message_id),
            reader.by_offset_message_id(record.offset_message_id.lower()),
            reader.at("orders", record.queue_id, record.queue_offset),
            *reader.by_unique_key("orders", record.properties.get("UNIQ_KEY") or ""),
        ):
            assert found.physical_offset == record.physical_offset
            assert found.queue_offset == record.queue_offset
            assert found.body == record.body
    for record in records[200:]:
        assert reader.look_at(record.physical_offset).queue_offset == record.queue_offset


def test_keys_lead_to_what_a_scan_finds(store: StoreProcess, reader: StoreReader) -> None:
    records = [r for r in log_records(store) if r.topic == "orders"]
    newest = reader.by_key("orders", "all", 10)
    assert [v.physical_offset for v in newest] == [r.physical_offset for r in records[-10:]]
    assert len(reader.by_key("orders", "all", 1000)) == 200
    begin, end = records[50].store_timestamp, records[120].store_timestamp
    found = reader.by_key("orders", "k3", 1000, begin, end)
    assert [v.physical_offset for v in found] == [
        r.physical_offset
        for i, r in enumerate(records)
        if i % 10 == 3 and begin <= r.store_timestamp <= end
    ]
    assert reader.by_key("orders", "nobody") == []
    assert reader.by_unique_key("orders", "all") == []  # a key, but no unique key
    uniq = records[9].properties["UNIQ_KEY"]
    assert [v.queue_offset for v in reader.by_key("orders", uniq)] == [records[9].queue_offset]
    assert reader.by_key("large", "all") == []


def test_bad_questions_are_refused(store: StoreProcess, reader: StoreReader) -> None:
    last = log_records(store)[-1]
    future = int(time.time() * 1000) + 60_000
    end = reader.max_physical_offset()
    other_host = "0A000001" + last.offset_message_id[8:]
    questions: list[tuple[Any, tuple[Any, ...], str]] = [
        (reader.get_message, ("nowhere", 0, 0), "topic 'nowhere' does not exist"),
        (reader.get_message, ("../x\n", 0, 0), "does not exist"),
        (reader.get_message, ("orders", -1, 0), "queue_id -1"),
        (reader.get_message, ("orders", 0, -1), "offset -1"),
        (reader.get_message, ("orders", 0, 2**63), "offset 9223372036854775808"),
        (reader.get_message, ("orders", 0, 0, 0), "max_messages 0"),
        (reader.get_message, ("orders", 0, 0, -5), "max_messages -5"),
        (reader.at, ("orders", 4, 0), "it has queues 0 to 3"),
        (reader.at, ("orders", -1, 0), "it has queues 0 to 3"),
        (reader.at, ("orders", 0, 100), "offsets 0 to 99: there is no offset 100"),
        (reader.at, ("empty", 0, 0), "no messages"),
        (reader.at, ("orders", 0, -1), "queue_offset -1"),
        (reader.look_at, (-1,), "physical_offset -1"),
        (reader.look_at, (end,), f"ends at {end}"),
        (reader.look_at, (2**70,), "physical_offset"),
        (reader.by_offset_message_id, ("",), "32 or 56 hex digits"),
        (reader.by_offset_message_id, ("x" * 32,), "32 or 56 hex digits"),
        (reader.by_offset_message_id, ("F" * 32,), "port"),
        (reader.by_unique_key, ("orders", ""), "empty key"),
        (reader.by_unique_key, ("nowhere", "k"), "does not exist"),
        (reader.by_key, ("orders", ""), "empty key"),
        (reader.by_key, ("orders", "k", 0), "max 0"),
        (reader.by_key, ("orders", "k", 1, -1), "begin_ms -1"),
        (reader.by_key, ("orders", "k", 1, future), "in the future"),
        (reader.by_key, ("orders", "k", 1, 5, 4), "end_ms 4 is before begin_ms 5"),
        (reader.offset_at_time, ("orders", 0, -1), "timestamp_ms -1"),
        (reader.offset_at_time, ("orders", 0, future), "in the future"),
        (reader.offset_at_time, ("orders", 0, 0, "middle"), "'lower' or 'upper'"),
        (reader.offset_at_time, ("nowhere", 0, 0), "does not exist"),
        (reader.max_offset, ("orders", 9), "it has queues 0 to 3"),
        (reader.earliest_time, ("nowhere", 0), "does not exist"),
    ]
    for ask, arguments, why in questions:
        with pytest.raises(IllegalQuery) as error:
            ask(*arguments)
        assert why in str(error.value), (arguments, error.value)
    with pytest.raises(IllegalQuery, match="max_bytes 0"):
        reader.get_message("orders", 0, 0, max_bytes=0)
    with pytest.raises(IllegalQuery, match="no boundary"):
        reader.offset_at_time("orders", 0, 0, "upper", rocketmq=True)
    with pytest.raises(MessageNotFound, match="no message begins"):
        reader.look_at(last.physical_offset + 1)
    with pytest.raises(MessageNotFound, match=r"names a message of 10\.0\.0\.1"):
        reader.by_offset_message_id(other_host)


def test_what_rocketmq_answers_of_unknown_queues(reader: StoreReader) -> None:
    assert reader.offset_at_time("nowhere", 0, 5, rocketmq=True) == 0
    assert reader.offset_at_time("orders", 99, 5, rocketmq=True) == 0
    assert reader.offset_at_time("empty", 0, 5, rocketmq=True) == 0
    assert reader.by_key("nowhere", "k", rocketmq=True) == []
