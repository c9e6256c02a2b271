"""`StoreReader` beside others: the threads that share it, and the cleaner."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.cleaned_stores import await_durable, await_runs
from support.harness import StoreProcess, eventually
from support.small_settings import BY_HAND

from silomq import Admin, Consumer, MessageView, Producer, StoreReader

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 1200


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    """Messages in several commit-log files, in more queues than a reader keeps open."""
    with StoreProcess(
        tmp_path_factory.mktemp("sharing") / "store",
        **{**BY_HAND, "destroy_mapped_file_interval_forcibly_ms": 600_000},
    ) as found:
        with Admin(found.path) as admin:
            admin.create_topic("t", 80)
        with Producer(found.path, timeout=30.0) as producer:
            for i in range(COUNT):
                producer.send_oneway("t", b"%d " % i + b"." * 1000, queue=i % 80)
            producer.flush()
        await_durable(found)
        yield found


def number(message: MessageView) -> int:
    return int(message.body.split()[0])


def test_threads_share_a_reader(store: StoreProcess) -> None:
    wrong: list[object] = []

    def read(reader: StoreReader, shift: int) -> None:
        try:
            for i in range(COUNT):
                at = (i * 7 + shift) % COUNT
                found = number(reader.at("t", at % 80, at // 80))
                if found != at:
                    wrong.append((at, found))
        except Exception as error:  # noqa: BLE001 - told below
            wrong.append(error)

    with StoreReader(store.path) as reader:
        threads = [threading.Thread(target=read, args=(reader, 150 * i)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_reader_of_an_old_file_holds_it(store: StoreProcess) -> None:
    """The file that is read stays when the cleaner comes, and goes when the reader goes on."""
    size = int(str(BY_HAND["mapped_file_size_commit_log"]))
    control = store.control
    assert control.load("wrote") > 3 * size
    with StoreReader(store.path) as reader, Admin(store.path) as admin:
        assert number(reader.get_message("t", 0, 0, 1).messages[0]) == 0
        message = reader.get_message("t", 0, 1, 1).messages[0]
        assert number(message) == 80
        held = message.physical_offset - message.physical_offset % size
        assert held < control.load("wrote") - 2 * size

        offset = 2

        def clean() -> None:
            admin.clean()
            await_runs(store)

        clean()
        assert control.load("min_offset") == held, "somebody reads there"
        last = COUNT // 80 - 1
        while (offset := reader.get_message("t", 0, offset, 1).next_begin_offset) <= last:
            pass
        clean()
        eventually(lambda: control.load("min_offset") > held, "the file is removed", 5.0)
    with Producer(store.path) as producer, Consumer(store.path, "t", queues=[0]) as consumer:
        producer.send("t", b"9999 the last", queue=0)  # the rest may be gone by now
        eventually(lambda: 9999 in map(number, consumer.poll(1000)), "it is read")
