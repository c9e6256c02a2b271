"""poll_arrow against a real store: what poll says, in columns."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.cleaned_stores import fill, log_files
from support.harness import StoreProcess
from support.load.messages import owner_of
from support.small_settings import ALWAYS

from silomq import Consumer, Producer, StoreClosed
from silomq.client.consuming.fill_columns import fill_from
from silomq.client.consuming.store_view import StoreView
from silomq.client.session import Connection
from silomq.shm.protocol.requests import Open
from silomq.store.errors import Corrupt
from silomq.store.reading._columns import Columns
from silomq.store.reading.columns import COLUMNS, BodyForm, mask_of, schema, to_batch
from silomq.store.record.javahash import tags_code

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from silomq import MessageView

COUNT = 3000
#: Whether bodies are views.
FORMS = {BodyForm.COPIES: False, BodyForm.VIEWS: True}


@pytest.fixture(scope="module")
def filled(store: StoreProcess) -> str:
    """A topic of messages with and without tags, keys and properties."""
    with Producer(store.path, timeout=10.0) as producer:
        for i in range(COUNT):
            producer.send_async(
                "filled",
                b"body %d" % i * (i % 7),
                queue=i % 2,
                tags=(None, "a", "b", "tag €")[i % 4],
                keys=None if i % 3 else f"k{i} l{i}",
                properties={"n": str(i)} if i % 5 else None,
                flag=i,
            )
        producer.flush()
    store.await_dispatch()
    return "filled"


def plain(view: MessageView) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(view, name) for name in COLUMNS if name != "body_crc"}
    row["born_host"], row["store_host"] = str(view.born_host), str(view.store_host)
    row["properties"] = list(view.properties.items())
    return row


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    for name in ("store_timestamp", "born_timestamp"):
        row[name] = round(row[name].timestamp() * 1000)
    del row["body_crc"]
    return row


def rows(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row_of(row) for batch in batches for row in batch.to_pylist()]


def drained(consumer: Consumer, **options: Any) -> list[pa.RecordBatch]:
    found = []
    while (batch := consumer.poll_arrow(**options)).num_rows:
        batch.validate(full=True)
        found.append(batch)
    return found


@pytest.mark.parametrize("form", list(FORMS))
def test_rows_say_what_messages_say(store: StoreProcess, filled: str, form: BodyForm) -> None:
    with Consumer(store.path, filled) as consumer:
        expected = []
        while found := consumer.poll(500):
            expected += [plain(view) for view in found]
    with Consumer(store.path, filled) as consumer:
        batches = drained(consumer, max_messages=700, body_views=FORMS[form])
        assert consumer.lag() == 0
    assert [batch.num_rows for batch in batches][:4] == [700] * 4
    assert all(batch.schema == schema(COLUMNS, form) for batch in batches)
    ordered = sorted(rows(batches), key=lambda row: int(row["physical_offset"]))
    assert ordered == sorted(expected, key=lambda row: int(row["physical_offset"]))
    assert len(ordered) == COUNT


def test_columns_and_sizes_as_asked(store: StoreProcess, filled: str) -> None:
    with Consumer(store.path, filled) as consumer:
        batches = drained(consumer, columns=["body", "size"], max_bytes=10_000)
    assert len(batches) > 20
    for batch in batches:
        assert batch.schema.names == ["body", "size"]
        assert sum(batch["size"].to_pylist()) <= 10_000
    with Consumer(store.path, filled, offset="latest") as consumer:
        assert consumer.poll_arrow(columns=["tags"]).schema == schema(["tags"])
        with pytest.raises(ValueError, match="no column 'tag'"):
            consumer.poll_arrow(columns=["tag"])  # type: ignore[list-item]


def test_it_waits_and_wakes_up(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        producer.send("wait", b"0", queue=0)
        store.await_dispatch()
        with Consumer(store.path, "wait", offset="latest") as consumer:
            began = time.monotonic()
            assert consumer.poll_arrow(10, 0.2).num_rows == 0
            assert time.monotonic() - began >= 0.2
            later = threading.Timer(0.2, producer.send, ("wait", b"1"), {"queue": 0})
            later.start()
            assert consumer.poll_arrow(10, 10.0)["body"].to_pylist() == [b"1"]
            later.join()
            assert time.monotonic() - began < 5


def test_a_cursor_passes_over_other_tags(store: StoreProcess, filled: str) -> None:
    link = Connection(store.path)
    slots = link.request(Open(filled, write=False)).slots
    store_view = StoreView(link)
    codes = frozenset(tags_code(tags) for tags in ("b", "tag €"))
    for queue, tags in ((0, "b"), (1, "tag €")):
        cursor = store_view.cursor(filled, queue, slots[queue], 0)
        found = cursor.read(100, codes)
        assert [view.tags for view in found] == [tags] * 100
        assert cursor.next == found[-1].queue_offset + 1
        cursor.next = 0
        columns = Columns(mask_of(COLUMNS))
        fill_from([cursor], columns, 100, codes)
        batch = to_batch(columns, COLUMNS)
        assert batch["queue_offset"].to_pylist() == [view.queue_offset for view in found]
        assert len(cursor.read(10_000, codes)) == COUNT // 4 - 100
        assert cursor.next == COUNT // 2
        cursor.next = 0
        assert cursor.read(10_000, frozenset()) == []
        assert cursor.next == COUNT // 2
        cursor.next = 5
        small = cursor.read(1000, None, max_bytes=1000)
        assert sum(view.size for view in small) <= 1000 < sum(view.size for view in small) + 400
        assert len(cursor.read(1000, None, max_bytes=1)) == 1
        store_view.remove(cursor)
    store_view.close()
    link.close()


def test_damage_is_named_and_what_is_before_it_comes(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            sent = [producer.send("t", b"%04d" % i * 50, queue=0) for i in range(20)]
        store.await_dispatch()
        (path,) = [p for p in (store.path / "commitlog").iterdir() if int(p.name) == 0]
        with path.open("r+b") as file:
            file.seek(sent[7].physical_offset + 120)
            file.write(b"!")
            file.seek(sent[11].physical_offset + 84)
            file.write(b"\xff")
        with Consumer(store.path, "t", queues=[0], check_crc=True) as consumer:
            for first, last in ((0, 7), (8, 11), (12, 20)):
                consumer.seek(0, first)
                found = consumer.poll_arrow()["queue_offset"].to_pylist()
                assert found == list(range(first, last))
                if last < 20:
                    with pytest.raises(Corrupt, match="no whole record") as error:
                        consumer.poll_arrow()
                    assert error.value.offset == sent[last].physical_offset
        with Consumer(store.path, "t", queues=[0]) as consumer:
            assert consumer.poll_arrow().num_rows == 11
        store.stop()


@pytest.mark.parametrize("body_views", [False, True])
def test_nothing_comes_twice_while_files_go(tmp_path: Path, *, body_views: bool) -> None:
    """Also what was read before its file went stays as it was."""
    with StoreProcess(tmp_path / "store", **ALWAYS) as store:
        sent = fill(store, 0, 1)
        with Consumer(store.path, "alpha") as consumer:
            batches: list[pa.RecordBatch] = []
            for _ in range(20):
                sent = fill(store, sent, 200)
                batches.append(consumer.poll_arrow(150, body_views=body_views))
            while (batch := consumer.poll_arrow(1000, 0.2, body_views=body_views)).num_rows:
                batches.append(batch)
            assert log_files(store)[0] > 0, "files went meanwhile"
            bodies = [body for batch in batches for body in batch["body"].to_pylist()]
            assert len(bodies) + consumer.missed == sent
            assert len({owner_of(body) for body in bodies}) == len(bodies)
            store.stop()
            with pytest.raises(StoreClosed):
                consumer.poll_arrow(1, 5.0)
        store.start()
