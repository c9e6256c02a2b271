"""A store whose host has an IPv6 address: in all kinds of records, and for all who read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.commands import silo
from support.deliveries import collect
from support.harness import StoreProcess
from support.small_settings import SMALL, options

from silomq import Consumer, Message, Producer, StoreReader
from silomq.client.groups.retry import send_back
from silomq.store.names import SCHEDULE_TOPIC
from silomq.store.record.ids import Host

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS = "fd00::1234"
HOST = Host.of(ADDRESS, 10911)
STORE_V6 = 0x20


@pytest.mark.parametrize("record_crc", [False, True])
def test_a_store_with_an_ipv6_host_serves_all_kinds_of_messages(
    tmp_path: Path, *, record_crc: bool
) -> None:
    settings: dict[str, Any] = {
        "store_host": ADDRESS,
        "enabled_append_prop_crc": str(record_crc).lower(),
    }
    with StoreProcess(tmp_path / "store", **settings) as store:
        with Producer(store.path) as producer, StoreReader(store.path) as reader:
            sent = producer.send("t", b"one", keys="k", tags="x")
            producer.send_batch("t", [Message(b"two", keys="k"), Message(b"three")])
            producer.send("t", b"level", delay_level=1)
            producer.send("t", b"time", delay_ms=100)
            bodies = [b"one", b"two", b"three", b"level", b"time"]
            came = {view.body: view for view in collect(store.path, "t", bodies).views}
            back = send_back(producer, came[b"one"], "g", delay_level=1)
            retried = collect(store.path, "%RETRY%g", [b"one"]).views[0]
            for view in (*came.values(), retried):
                assert (view.store_host, view.sys_flag & STORE_V6) == (HOST, STORE_V6)
                assert len(view.offset_message_id) == 56
                found = reader.by_offset_message_id(view.offset_message_id)
                assert (found.body, found.store_host) == (view.body, HOST)
            assert came[b"one"].offset_message_id == sent.offset_message_id
            assert retried.properties["ORIGIN_MESSAGE_ID"] == sent.offset_message_id
            assert {m.body for m in reader.by_key("t", "k")} == {b"one", b"two"}
            with Consumer(store.path, SCHEDULE_TOPIC) as consumer:
                assert back.offset_message_id in {
                    view.offset_message_id for view in consumer.poll(10, 5)
                }
            with Consumer(store.path, "t", check_crc=True) as consumer:
                batch = consumer.poll_arrow(100, 5)
                assert set(batch.column("store_host").to_pylist()) == {f"[{ADDRESS}]:10911"}
        store.crash()
        store.start()
        assert collect(store.path, "t", bodies, grace=0).times.keys() == came.keys()
        store.stop()
    sizes = options({**SMALL, **settings})
    assert json.loads(silo("verify", str(store.path), "--json", *sizes).stdout)["sound"]
    dumped = silo("dump", "commitlog", str(store.path), *sizes).stdout.decode()
    assert dumped.count(f"storeHost=[{ADDRESS}]:10911") == dumped.count("sysFlag=32") == 9


@pytest.mark.parametrize("address", ["localhost", "::1%lo", "[::1]", "1.2.3", "fd00::g"])
def test_a_store_host_that_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    store = StoreProcess(tmp_path / "store", store_host=address)
    assert store.launch().wait(30) == 3
    assert "a numeric IPv4 or IPv6 address, no host name" in store.log()
    assert not store.path.exists()
