"""Progress of delayed messages, and the record that is delivered of one."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.store.delay.delays import (
    Progress,
    ProgressFile,
    destination,
    due_ms,
    identity,
    keep_durable_slots,
    restore,
)
from silomq.store.disk.files import Folder
from silomq.store.record.format import Record, decode_record, encode_record
from silomq.store.record.ids import Host
from silomq.store.record.properties import encode_properties

HOST = Host.parse("10.1.2.3:10911")
WAITING = {"REAL_TOPIC": "t", "TAGS": "x", "UNIQ_KEY": "A" * 32, "DELAY": "3", "REAL_QID": "2"}


def record(topic: str = "SCHEDULE_TOPIC_XXXX", **properties: str) -> Record:
    made = encode_record(
        topic.encode(),
        b"body",
        encode_properties(properties or WAITING),
        queue_id=2,
        flag=7,
        born_timestamp=1234,
        born_host=Host.parse("[::1]:7"),
        reconsume_times=3,
    )
    return decode_record(made)


# -- progress


def test_a_slot_that_knows_more_than_the_log_does_not_count(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        file = ProgressFile(folder)
        assert file.newest(10**9) is None
        durable = Progress(100, 1, [5] * 48)
        file.make_durable(durable)
        for scan_from in (200, 300, 400):
            file.publish(Progress(scan_from, 2, [6] * 48))
        again = ProgressFile(folder)
        assert again.newest(400) == Progress(400, 2, [6] * 48)
        assert again.newest(399) == Progress(300, 2, [6] * 48)
        assert again.newest(299) == durable
        assert again.newest(99) is None


def test_only_durable_slots_outlive_the_boot(tmp_path: Path) -> None:
    """The others may be on the disk without the timers' files that they count on."""
    with Folder.open(tmp_path) as folder:
        keep_durable_slots(folder)
        assert folder.names() == []
        file = ProgressFile(folder)
        file.make_durable(Progress(100, 1, [5] * 48))
        for scan_from in (200, 300):
            file.publish(Progress(scan_from, 2, [6] * 48))
        keep_durable_slots(folder)
        again = ProgressFile(folder)
        assert again.newest(10**9) == Progress(100, 1, [5] * 48)
        again.publish(Progress(400, 3, [7] * 48))
        assert ProgressFile(folder).newest(10**9) == Progress(400, 3, [7] * 48)


def test_a_torn_slot_does_not_count(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as folder:
        file = ProgressFile(folder)
        file.publish(Progress(100, 1, [1] * 48))
        file.publish(Progress(200, 2, [2] * 48))
        path = tmp_path / "schedule"
        data = bytearray(path.read_bytes())
        newest = data.index(struct.pack("<Q", 200))
        data[newest + 9] ^= 1
        path.write_bytes(data)
        assert ProgressFile(folder).newest(1000) == Progress(100, 1, [1] * 48)


# -- records


@pytest.mark.parametrize("crc", [False, True])
def test_the_delivered_record(*, crc: bool) -> None:
    """As RocketMQ's messageTimeup: the property string stays; birth, flag, reconsumeTimes too."""
    waiting = record()
    made, body = restore(waiting, "t", 2, HOST, record_crc=crc)
    out = decode_record(made)
    assert made[slice(*body)] == b"body"
    assert (out.topic, out.queue_id, out.flag, out.reconsume_times) == ("t", 2, 7, 3)
    assert (out.born_timestamp, out.born_host, out.store_host) == (1234, waiting.born_host, HOST)
    assert out.properties_raw.startswith(waiting.properties_raw)
    assert ("__CRC32#" in out.properties) == crc
    assert identity(out) == identity(waiting)


def test_an_old_checksum_is_replaced() -> None:
    once = encode_record(b"SCHEDULE_TOPIC_XXXX", b"b", encode_properties(WAITING), record_crc=True)
    made, _ = restore(decode_record(once), "t", 2, HOST, record_crc=True)
    assert made.count(b"__CRC32#") == 1
    assert decode_record(made).properties == decode_record(made, check_crc=True).properties


@given(st.sampled_from(["UNIQ_KEY", "REAL_TOPIC", "REAL_QID", "DELAY", "TIMER_OUT_MS"]))
def test_identity_tells_messages_apart(name: str) -> None:
    assert identity(record(**{**WAITING, name: "9"})) != identity(record())
    # RocketMQ writes the pairs in another order, and adds what says when it was at work.
    turned = dict(reversed(WAITING.items())) | {"TIMER_DEQUEUE_MS": "5"}
    assert identity(record("t", **turned)) == identity(record())


def test_destination_and_due() -> None:
    assert destination(record()) == ("t", 2)
    for wrong in ({"REAL_TOPIC": "rmq_sys_wheel_timer"}, {"REAL_QID": "x"}, {"REAL_QID": "-1"}):
        assert destination(record(**{**WAITING, **wrong})) is None
    assert destination(record(KEYS="k")) is None
    assert due_ms(record(TIMER_OUT_MS="5000", TIMER_DELIVER_MS="5999")) == 5999
    assert due_ms(record(TIMER_OUT_MS="5000")) == 5000
    assert due_ms(record(TIMER_OUT_MS="soon")) == 0


# -- the scan kernel


# -- delayOffset.json
