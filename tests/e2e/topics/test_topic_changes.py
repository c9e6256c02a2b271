"""Topics of a running store: more and fewer queues, permissions, deletion."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from e2e.topics.queues import assert_sound, numbers, read, send
from support.harness import StoreProcess, eventually, kill_now

from silomq import Admin, Consumer, Producer
from silomq.client.producing._sender import session_of
from silomq.store.errors import IllegalMessage
from silomq.store.topics.deletions import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "store", auto_create_topic_enable="false") as running:
        yield running


def test_queues_are_added_and_taken_away(store: StoreProcess) -> None:
    with Admin(store.path) as admin, Producer(store.path) as producer:
        admin.create_topic("t", 2)
        admin.create_topic("other", 3)
        producer.send("t", "a0", queue=0)
        assert len(session_of(producer).routes["t"].slots) == 2
        admin.update_topic("t", read_queues=4, write_queues=4)
        producer.open_topic("t")
        for queue in range(4):
            producer.send("t", f"b{queue}", queue=queue)
        assert numbers(store, "t") == (4, 4, 4)
        both = {0: [(0, "a0"), (1, "b0")], 1: [(0, "b1")], 2: [(0, "b2")], 3: [(0, "b3")]}
        assert read(store, "t", 5) == both
        admin.update_topic("t", write_queues=1)
        assert producer.open_topic("t") == 1
        assert read(store, "t", 5) == both
        admin.update_topic("t", read_queues=1)
        assert numbers(store, "t") == (1, 1, 4)
        assert read(store, "t", 2) == {0: both[0]}
    store.stop()
    assert_sound(store)
    store.start()
    # As it was left: neither the folders nor the entries make a topic larger again.
    assert numbers(store, "t") == (1, 1, 4)
    with Admin(store.path) as admin:
        admin.update_topic("t", read_queues=6, write_queues=6, order=True)
        assert admin.topic("t").order
        assert [topic.order for topic in admin.topics()] == [False, True]
    send(store, "t", ["c3"], 3)
    assert read(store, "t", 6) == {**both, 3: [(0, "b3"), (1, "c3")]}
    store.crash()
    store.start()
    assert numbers(store, "t") == (6, 6, 6)
    assert read(store, "t", 6) == {**both, 3: [(0, "b3"), (1, "c3")]}


def test_the_right_to_write_is_taken_back(store: StoreProcess) -> None:
    with Admin(store.path) as admin, Producer(store.path) as producer:
        admin.create_topic("t", 1)
        producer.send("t", "before")
        admin.update_topic("t", perm=4)
        with pytest.raises(IllegalMessage, match="taken back"):
            producer.send("t", "after")
        with pytest.raises(IllegalMessage, match="may not be written"):
            producer.send("t", "after")
        assert read(store, "t", 1) == {0: [(0, "before")]}
        admin.update_topic("t", perm=2)
        producer.send("t", "again")
        with pytest.raises(IllegalMessage, match="may not be read"):
            Consumer(store.path, "t")
        admin.update_topic("t", perm=6)
        assert read(store, "t", 2) == {0: [(0, "before"), (1, "again")]}


def test_a_deleted_topic_is_gone_and_its_name_begins_anew(store: StoreProcess) -> None:
    with Admin(store.path) as admin, Producer(store.path) as producer:
        for topic in ("t", "stays"):
            admin.create_topic(topic, 3)
            for queue in range(3):
                producer.send(topic, f"old{queue}", queue=queue)
        read(store, "t", 3)
        assert admin.delete_topic("t")
        assert not admin.delete_topic("t")
        assert [topic.topic for topic in admin.topics()] == ["stays"]
        assert sorted(path.name for path in (store.path / "consumequeue").iterdir()) == ["stays"]
        with pytest.raises(IllegalMessage, match="taken back"):
            producer.send("t", "lost")
        with pytest.raises(IllegalMessage, match="does not exist"):
            producer.send("t", "lost")
        with pytest.raises(IllegalMessage, match="does not exist"):
            Consumer(store.path, "t")
        with pytest.raises(IllegalMessage, match="does not exist"):
            admin.topic("t")
        admin.create_topic("t", 2)
        producer.send("t", "new", queue=1)
        assert read(store, "t", 1) == {1: [(0, "new")]}
    for end in ("stop", "crash", "rebuild"):
        if end == "crash":
            store.crash()
        else:
            store.stop()
        assert_sound(store)
        if end == "rebuild":
            remove_progress(store)
        store.start()
        assert read(store, "t", 1) == {1: [(0, "new")]}
        assert numbers(store, "t") == (2, 2, 2)
        read(store, "stays", 3)
    with Admin(store.path) as admin:
        assert admin.delete_topic("t")
    store.crash()
    assert_sound(store)
    store.start()
    with pytest.raises(IllegalMessage, match="does not exist"):
        Consumer(store.path, "t")
    read(store, "stays", 3)


def test_a_new_topic_takes_no_message_of_a_deleted_one(tmp_path: Path) -> None:
    """Nor one that is dispatched only after the deletion: it was not durable before."""
    settings: dict[str, Any] = {"flush_disk_type": "SYNC_FLUSH", "heartbeat_timeout_ms": 60_000}
    with StoreProcess(tmp_path / "store", **settings) as store:
        with Admin(store.path) as admin, Producer(store.path) as producer:
            admin.create_topic("t", 1)
            producer.send("t", "first")
            wrote = store.control.load("wrote")
            store.await_dispatch()
            flush = store.kill("flush", signal.SIGSTOP)
            producer.send_oneway("t", "old")
            eventually(lambda: store.control.load("wrote") > wrote, "it is appended")
            admin.delete_topic("t")
            admin.create_topic("t", 1)
            assert store.control.load("dispatched") == wrote
            kill_now(flush, signal.SIGCONT)
            producer.open_topic("t")
            producer.send("t", "new")
        assert read(store, "t", 1) == {0: [(0, "new")]}
        store.stop()
        assert_sound(store)


def test_what_was_answered_outlives_a_crash(store: StoreProcess) -> None:
    with Admin(store.path) as admin:
        admin.create_topic("changed", 1)
        admin.create_topic("made", 2)
        store.crash()
    store.start()
    with Admin(store.path) as admin:
        assert {t.topic: t.write_queues for t in admin.topics()} == {"changed": 1, "made": 2}
        admin.update_topic("changed", read_queues=3, write_queues=3)
        store.crash()
    store.start()
    assert numbers(store, "changed") == (3, 3, 3)


def remove_progress(store: StoreProcess) -> None:
    """The next start builds queues and index anew from the whole log."""
    (store.path / "silomq" / "progress").unlink()
    (store.path / "checkpoint").unlink()


def test_a_start_after_a_deletion_trusts_progress(store: StoreProcess) -> None:
    with Admin(store.path) as admin:
        admin.create_topic("t", 1)
        send(store, "t", [str(n) for n in range(50)])
        read(store, "t", 50)
        admin.delete_topic("t")
    store.stop()
    store.start()
    with Admin(store.path) as admin:
        report = admin.status()["start_up"]
    assert report["clean"], "nothing was left undone by the stop"
    assert report["known_from"] == "progress record"
    assert not [note for note in report["notes"] if "anew" in note]


def test_a_deletion_while_others_send(store: StoreProcess) -> None:
    with Admin(store.path) as admin:
        for topic in ("t", "u"):
            admin.create_topic(topic, 1)
    sent = {"t": 0, "u": 0}
    stopping = threading.Event()

    def work(topic: str) -> None:
        with Producer(store.path) as producer:
            while not stopping.is_set():
                try:
                    producer.send(topic, f"{sent[topic]}")
                except IllegalMessage:
                    return
                sent[topic] += 1

    threads = [threading.Thread(target=work, args=(topic,)) for topic in sent]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: min(sent.values()) > 200, "both producers send")
        with Admin(store.path) as admin:
            assert admin.delete_topic("t")
            admin.create_topic("t", 1)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    # The producer of the old topic may have found the new one: what it sent is all there is.
    with Consumer(store.path, "t") as consumer:
        found = [int(m.body) for m in consumer.poll(10_000, 0.3)]
        assert found == list(range(sent["t"] - len(found), sent["t"]))
    assert read(store, "u", sent["u"]) == {0: [(n, str(n)) for n in range(sent["u"])]}
    store.crash()
    assert_sound(store)
    store.start()
    read(store, "u", sent["u"])
    read(store, "t", len(found))


@pytest.mark.parametrize("actor", ["append", "reput", "clean", "flush", "registry"])
def test_actors_are_replaced_after_a_deletion(store: StoreProcess, actor: str) -> None:
    with Admin(store.path) as admin:
        admin.create_topic("t", 2)
        send(store, "t", ["old"])
        read(store, "t", 1)
        admin.delete_topic("t")
        admin.create_topic("t", 1)
        send(store, "t", ["new"])
        store.replace(actor)
        send(store, "t", ["newer"])
        assert read(store, "t", 2) == {0: [(0, "new"), (1, "newer")]}
        assert [topic.topic for topic in admin.topics()] == ["t"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"perm": 3}, "perm 3"),
        ({"perm": 0}, "perm 0"),
        ({"read_queues": 0}, "0 queues"),
        ({"write_queues": -1}, "-1 queues"),
        ({"write_queues": 10**9}, "queues: 1 to"),
    ],
)
def test_bad_changes_are_refused(store: StoreProcess, changes: dict[str, Any], why: str) -> None:
    with Admin(store.path) as admin:
        admin.create_topic("t", 1)
        with pytest.raises(IllegalMessage, match=why):
            admin.update_topic("t", **changes)
        assert numbers(store, "t") == (1, 1, 1)
        admin.create_topic("u", 1)
        with pytest.raises(IllegalMessage, match="raise max_queues"):
            admin.update_topic("t", read_queues=1024)
        assert numbers(store, "t") == (1, 1, 1)


def test_the_stores_own_topics_are_left_alone(store: StoreProcess) -> None:
    with Admin(store.path) as admin:
        for change in (admin.delete_topic, admin.update_topic, admin.create_topic):
            with pytest.raises(IllegalMessage, match="the store's own"):
                change("SCHEDULE_TOPIC_XXXX")
            with pytest.raises(IllegalMessage, match="position 1"):
                change("a/b")
        assert admin.topics() == []


def test_a_bad_record_of_deletions_stops_the_start_if_its_backup_is_bad_too(
    store: StoreProcess,
) -> None:
    with Admin(store.path) as admin:
        admin.create_topic("t", 1)
        admin.delete_topic("t")
    store.stop()
    path, backup = (store.path / "silomq" / name for name in (FILE_NAME, f"{FILE_NAME}.bak"))
    path.write_bytes(path.read_bytes()[:-1])
    good = backup.read_bytes()
    backup.write_bytes(b"[]")
    process = store.launch()
    assert process.wait(20) == 5
    assert f"{path}, offset 0: the file is unreadable" in store.log()
    backup.write_bytes(good)
    store.log_path.unlink()  # a start that fails may leave a trace there, one that succeeds not
    store.start()
    with Admin(store.path) as admin:
        assert admin.topics() == []
        admin.create_topic("t", 1)
    assert len(list(path.parent.glob(f"{FILE_NAME}.bad-*"))) == 1
