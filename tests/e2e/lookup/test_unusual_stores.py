"""The reader against stores of all kinds: other limits, missing files, damage, no index, a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.harness import StoreProcess, eventually

from silomq import Corrupt, IllegalQuery, Message, Producer, StoreClosed, StoreReader

if TYPE_CHECKING:
    from pathlib import Path

QUEUE_ENTRIES = 40960 // 20


def test_limits_are_settings(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "max_transfer_count_on_message_in_memory": 5,
        "max_transfer_bytes_on_message_in_memory": 1500,
        "max_transfer_count_on_message_in_disk": 3,
        "max_transfer_bytes_on_message_in_disk": 700,
        "max_msgs_num_batch": 4,
    }
    for ratio, count, size in ((100, 5, 1500), (0, 3, 700)):
        changed = {**settings, "access_message_in_memory_max_ratio": ratio}
        folder = tmp_path / str(ratio)
        with StoreProcess(folder, **changed) as store:
            with Producer(store.path) as producer:
                for _ in range(20):
                    producer.send("small", b"s", keys="k", queue=0)
                    producer.send("big", b"b" * 300, queue=0)
            store.await_dispatch()
            with StoreReader(store.path) as reader:
                assert len(reader.get_message("small", 0, 0, 100).messages) == count
                big = reader.get_message("big", 0, 0, 100).messages
                assert len(big) == size // big[0].size < count
                assert len(reader.get_message("big", 0, 0, max_bytes=1).messages) == 1
                assert len(reader.by_key("small", "k", 100)) == 20
                assert len(reader.by_key("small", "k", 100, rocketmq=True)) == 4


def test_missing_files_are_said(tmp_path: Path) -> None:
    """A hole in a queue, and a commit-log file that is gone without clean's doing."""
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            producer.send_batch("t", [Message(b"-")] * 1000, queue=0)
            producer.send_batch("t", [Message(b"-")] * 1000, queue=0)
            producer.send_batch("t", [Message(b"-")] * 1000, queue=0)
        store.await_dispatch()
        (store.path / "consumequeue" / "t" / "0" / f"{0:020d}").rename(tmp_path / "away")
        with StoreReader(store.path) as reader:
            result = reader.get_message("t", 0, 7)
            assert (result.status.name, result.messages) == ("OFFSET_FOUND_NULL", [])
            assert result.next_begin_offset == QUEUE_ENTRIES
            assert (result.min_offset, result.max_offset) == (0, 3000)
            assert len(reader.get_message("t", 0, QUEUE_ENTRIES).messages) == 32
            with pytest.raises(Corrupt, match=r"is missing.*silo repair --rebuild"):
                reader.at("t", 0, 7)
            with pytest.raises(Corrupt, match="is missing"):
                reader.offset_at_time("t", 0, 0)
        (tmp_path / "away").rename(store.path / "consumequeue" / "t" / "0" / f"{0:020d}")


def test_a_damaged_record_is_said(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            sent = [producer.send("t", b"body" * 20, keys="k", queue=0) for _ in range(3)]
        store.await_dispatch()
        at = sent[1].physical_offset
        with (store.path / "commitlog" / f"{0:020d}").open("r+b") as log:
            log.seek(at + 100)
            log.write(b"?")
        with StoreReader(store.path) as reader:
            for ask in (
                lambda: reader.look_at(at),
                lambda: reader.at("t", 0, 1),
                lambda: reader.by_key("t", "k"),
            ):
                with pytest.raises(Corrupt, match="CRC") as error:
                    ask()
                assert error.value.offset in (at, at + 88)
            assert reader.at("t", 0, 2).body == b"body" * 20


def test_without_an_index_keys_are_refused(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", message_index_enable="false") as store:
        with Producer(store.path) as producer:
            sent = producer.send("t", b"x", keys="k")
        store.await_dispatch()
        with StoreReader(store.path) as reader:
            assert reader.by_offset_message_id(sent.offset_message_id).body == b"x"
            with pytest.raises(IllegalQuery, match="message_index_enable"):
                reader.by_key("t", "k")


def test_messages_of_a_store_with_a_pool_are_found(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "transient_store_pool_enable": "true",
        "transient_store_pool_size": 3,
    }
    with StoreProcess(tmp_path / "store", **settings) as store, Producer(store.path) as producer:
        sent = producer.send("t", b"x", keys="k", queue=0)
        with StoreReader(store.path) as reader:
            eventually(lambda: reader.max_offset("t", 0), "the message is dispatched")
            assert reader.get_message("t", 0, 0).messages[0].body == b"x"
            assert reader.look_at(sent.physical_offset).body == b"x"


def test_a_store_that_stopped(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store")
    with store:
        with Producer(store.path) as producer:
            producer.send("t", b"x", queue=0)
        reader = StoreReader(store.path)
    with reader, pytest.raises(StoreClosed):
        reader.get_message("t", 0, 0)
    with pytest.raises(StoreClosed, match="silo serve"):
        StoreReader(store.path)
