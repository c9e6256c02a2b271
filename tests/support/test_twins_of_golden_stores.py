"""What RocketMQ wrote is read as RocketMQ reads it; the twins write what RocketMQ wrote."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

import pytest
from support import golden_stores
from support.plain_records import is_blank
from support.record_check import check_record
from support.twins import QueueEntry, twin_dispatch, twin_index, walk

from silomq.store.config.fastjson import dumps, loads
from silomq.store.record.format import Record, decode_record

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module", params=golden_stores.NAMES)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> golden_stores.Golden:
    return golden_stores.unpack(request.param, tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def log(store: golden_stores.Golden) -> tuple[int, bytes]:
    files = store.log_files()
    return files[0][0], b"".join(data for _, data in files)


def as_manifest(r: Record) -> dict[str, Any]:
    """The fields of a `msg` line that come from the record alone."""
    return {
        "commitLogOffset": r.physical_offset,
        "topic": r.topic,
        "queueId": r.queue_id,
        "queueOffset": r.queue_offset,
        "msgId": r.offset_message_id,
        "storeSize": r.total_size,
        "bodyCRC": r.body_crc,
        "sysFlag": r.sys_flag,
        "flag": r.flag,
        "bornTimestamp": r.born_timestamp,
        "storeTimestamp": r.store_timestamp,
        "bornHost": str(r.born_host),
        "storeHost": str(r.store_host),
        "reconsumeTimes": r.reconsume_times,
        "preparedTransactionOffset": r.prepared_transaction_offset,
        "tags": r.tags,
        "keys": r.properties.get("KEYS"),
        "properties": r.properties,
        "bodyLen": len(r.body),
        "bodySha256": hashlib.sha256(r.body).hexdigest(),
        "propertiesRawHex": r.properties_raw.hex(),
    }


def test_every_record_and_every_blank(store: golden_stores.Golden, log: tuple[int, bytes]) -> None:
    start, data = log
    size = golden_stores.LOG_FILE_SIZE
    end = store.of("store")[0]["maxPhyOffset"]
    messages = {m["commitLogOffset"]: m for m in store.of("msg")}
    blanks = {b["commitLogOffset"]: b["size"] for b in store.of("blank")}
    assert messages
    at = start
    while at < end:
        position, left = at - start, size - at % size
        if is_blank(data, position, left):
            assert blanks.pop(at) == left
            assert check_record(data, position, position + left)[:2] == (0, True)
            at += left
            continue
        r = decode_record(data, position, position + left, path=store.name, base=start)
        wanted = messages.pop(at)
        said = as_manifest(r)
        assert said == {name: wanted[name] for name in said}
        raw = data[position : position + r.total_size]
        assert hashlib.sha256(raw).hexdigest() == wanted["recordSha256"]
        assert check_record(data, position, position + left)[:2] == (r.total_size, True)
        at += r.total_size
    assert (at, messages, blanks) == (end, {}, {})


def test_the_dispatch_twin_writes_rocketmqs_queues(
    store: golden_stores.Golden, log: tuple[int, bytes]
) -> None:
    start, data = log
    end = store.of("store")[0]["maxPhyOffset"]
    found = {
        (m["topic"], m["queueId"], m["queueOffset"]): QueueEntry(
            m["cq"]["offset"], m["cq"]["size"], m["cq"]["tagsCode"]
        )
        for m in store.of("msg")
        if m.get("cq")
    }
    # In `preblank` RocketMQ dispatched only what came behind its recovery's start file.
    first = min(entry.physical_offset for entry in found.values())
    records = walk(data, golden_stores.LOG_FILE_SIZE, start, end)
    entries = twin_dispatch(r for r in records if r.physical_offset >= first)
    ours = {(*queue, i): entry for queue, part in entries.items() for i, entry in part.items()}
    assert ours == found
    for (topic, queue_id), part in entries.items():
        folder = store.path / "consumequeue" / topic / str(queue_id)
        files = {int(f.name): f.read_bytes() for f in folder.iterdir()}
        for i, entry in part.items():
            file = files[i * 20 // golden_stores.QUEUE_FILE_SIZE * golden_stores.QUEUE_FILE_SIZE]
            at = i * 20 % golden_stores.QUEUE_FILE_SIZE
            assert file[at : at + 20] == entry.pack(), (topic, queue_id, i)


def test_the_index_twin_writes_rocketmqs_index(
    store: golden_stores.Golden, log: tuple[int, bytes]
) -> None:
    start, data = log
    theirs = [f.read_bytes() for f in sorted((store.path / "index").iterdir())]
    (first,) = struct.unpack_from(">q", theirs[0], 16)
    (last,) = struct.unpack_from(">q", theirs[-1], 24)
    records = (
        r
        for r in walk(data, golden_stores.LOG_FILE_SIZE, start)
        if first <= r.physical_offset <= last
    )
    files = twin_index(
        records, golden_stores.INDEX_SLOTS, golden_stores.INDEX_ENTRIES, count_puts=True
    )
    assert [f.bytes() for f in files] == theirs


def test_config_files_come_out_as_they_were(store: golden_stores.Golden, tmp_path: Path) -> None:
    folder = store.path / "config"
    if not folder.is_dir():
        pytest.skip(f"{store.name} has no config files")
    for file in folder.glob("*.json"):
        text = file.read_text()
        assert dumps(loads(text)) == text
