"""Cancelling messages that wait for their time: obeyed across kills, and refused in clear words."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.deliveries import collect
from support.harness import LONG, StoreProcess, eventually

from silomq import Admin, IllegalMessage, IllegalQuery, Producer
from silomq.client.producing.recall_handle import Handle
from silomq.store.status import PutMessageStatus

if TYPE_CHECKING:
    from pathlib import Path


def now_ms() -> int:
    return int(time.time() * 1000)


def await_schedule(store: StoreProcess, killed: int) -> None:
    eventually(lambda: store.is_ready("schedule", but_not=killed), "schedule serves")


def test_a_cancelled_message_never_comes(store: StoreProcess, topic: str) -> None:
    """By its result or by its handle; its neighbours of the same second come."""
    at = now_ms() + 4000
    with Producer(store.path) as producer:
        kept = [b"kept %d" % i for i in range(20)]
        sent = [producer.send(topic, b"gone %d" % i, deliver_at=at + i) for i in range(20)]
        for i, body in enumerate(kept):
            producer.send(topic, body, deliver_at=at + i)
        other = producer.send_async(f"{topic}-2", b"elsewhere", deliver_at=at).result()
        for result in sent[:10]:
            assert producer.cancel(result).status == PutMessageStatus.PUT_OK
    handles = [result.recall_handle for result in sent[10:]]
    with Producer(store.path) as producer:
        for handle in handles:
            assert handle is not None
            producer.cancel(handle)
        producer.cancel(sent[0])  # a second time changes nothing
        # The key alone does not name a message: another topic, another time.
        assert other.recall_handle is not None
        found = Handle.decode(other.recall_handle)
        producer.cancel(found._replace(topic=topic).encoded())
        producer.cancel(found._replace(due_ms=at + 2000).encoded())
    assert now_ms() < at, "the test was too slow: all is cancelled before it is due"
    collect(store.path, topic, kept).check(dict.fromkeys(kept, at))
    collect(store.path, f"{topic}-2", [b"elsewhere"]).check({b"elsewhere": at})


@pytest.mark.parametrize(("count", "wait_ms"), [(80, 7_000), pytest.param(200, 12_000, marks=LONG)])
def test_cancels_are_obeyed_across_kills(tmp_path: Path, count: int, wait_ms: int) -> None:
    """Of schedule at any moment, and of everything between the cancel and the time."""
    with StoreProcess(tmp_path / "store") as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 4)  # durable at once: a new topic of a send is saved soon after
        at = now_ms() + wait_ms
        with Producer(store.path) as producer:
            bodies = [b"%d" % i for i in range(count)]
            sent = {
                body: producer.send("t", body, deliver_at=at + i) for i, body in enumerate(bodies)
            }
            for i, result in enumerate(sent.values()):
                if i % 2:
                    producer.cancel(result)
                if i % 40 == 39:
                    pid = store.kill("schedule")
                    await_schedule(store, pid)
            store.await_dispatch()
        store.crash()
        store.start()
        assert now_ms() < at, "the test was too slow: all is cancelled before it is due"
        kept = {body: at + i for i, body in enumerate(sent) if i % 2 == 0}
        collect(store.path, "t", kept).check(kept)
        pid = store.kill("schedule")
        await_schedule(store, pid)
        store.crash()
        store.start()
        collect(store.path, "t", kept).check(kept)


def test_what_was_cancelled_while_the_store_was_busy_elsewhere(tmp_path: Path) -> None:
    """Message and cancel are both old when schedule reads them first: the cancel counts."""
    with StoreProcess(tmp_path / "store") as store:
        pid = store.kill("schedule", signal.SIGSTOP)
        with Producer(store.path) as producer:
            at = now_ms() + 1500
            gone = producer.send("t", b"gone", deliver_at=at)
            for i in range(600):  # more than schedule reads at once
                producer.send("t", b"%d" % i, deliver_at=at)
            producer.cancel(gone)
            assert now_ms() < at
        time.sleep(max(0.0, at / 1000 - time.time()) + 0.1)
        store.kill("schedule")
        await_schedule(store, pid)
        due = {b"%d" % i: at for i in range(600)}
        collect(store.path, "t", due).check(due)


def test_what_cannot_be_cancelled_is_said(store: StoreProcess, topic: str) -> None:
    with Producer(store.path) as producer:
        plain = producer.send(topic, b"x")
        level = producer.send(topic, b"x", delay_level=1)
        batch = producer.send_batch(topic, [b"x", b"y"])
        past = producer.send(topic, b"x", deliver_at=now_ms() - 5)
        for result in (plain, level, batch, past):
            assert result.recall_handle is None
            with pytest.raises(IllegalQuery, match="deliver_at= or delay_ms="):
                producer.cancel(result)
        soon = producer.send(topic, b"soon", delay_ms=50)
        collect(store.path, topic, [b"soon"], grace=0)
        with pytest.raises(IllegalMessage, match=r"was due \d+ ms ago") as refused:
            producer.cancel(soon)
        assert refused.value.status == PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL
        for text in ("", "x", "djEgdCBi", "ü", Handle("a/b", 1, "K").encoded(), "v1 t b 5 k"):
            with pytest.raises(IllegalQuery, match="no recall handle"):
                producer.cancel(text)
        with pytest.raises(IllegalQuery, match="deliver_at= or delay_ms="):
            producer.cancel(None)  # type: ignore[arg-type]
