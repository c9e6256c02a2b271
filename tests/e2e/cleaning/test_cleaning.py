"""Cleaning of a running store: what goes, what readers see of it, and kills in the middle."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.cleaned_stores import (
    active,
    await_cleaned,
    await_durable,
    await_runs,
    check_least,
    check_readable,
    fill,
    least_offsets,
    log_files,
    queues_are_clean,
    runs_left,
)
from support.commands import silo
from support.harness import LONG, StoreProcess, eventually
from support.kill_points import ROOT, Fault, deaths, points_in
from support.load.messages import owner_of
from support.small_settings import ALWAYS, BY_HAND, LOG_FILE

from silomq import Admin, Consumer, Producer

if TYPE_CHECKING:
    from silomq import MessageView


def test_expired_files_go_and_queues_and_index_follow(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **ALWAYS) as store:
        sent = fill(store, 0, 3000)
        await_cleaned(store)
        eventually(lambda: len(list((store.path / "index").iterdir())) <= 3, "index files go")
        check_least(store)
        eventually(lambda: queues_are_clean(store), "queue files go")
        check_readable(store, sent)
        sent = fill(store, sent, 500)
        await_cleaned(store)
        check_readable(store, sent)
        with Admin(store.path) as admin:
            status = admin.status()
        assert status["min_offset"] == active(store)
        assert status["files_removed"] == active(store) // LOG_FILE
        assert status["cleaned_ms"] >= status["started_ms"]


def test_by_hand_only_when_asked(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store", **BY_HAND) as store:
        sent = fill(store, 0, 800)
        await_durable(store)
        assert log_files(store)[0] == 0
        assert b"runs remove expired files" in silo("clean", store=store.path).stderr
        await_cleaned(store)
        await_runs(store)
        left = log_files(store)[0]
        sent = fill(store, sent, 800)
        assert log_files(store)[0] == left, "nothing goes without another request"
        check_readable(store, sent)
        check_least(store)


def test_nothing_goes_before_its_time(tmp_path: Path) -> None:
    settings = {**ALWAYS, "file_reserved_time_h": 1}
    with StoreProcess(tmp_path / "store", **settings) as store:
        sent = fill(store, 0, 800)
        old = time.time() - 3601
        for base in log_files(store)[:2]:
            os.utime(store.path / "commitlog" / f"{base:020d}", (old, old))
        eventually(lambda: log_files(store)[0] == 2 * LOG_FILE, "two files have expired")
        with Admin(store.path) as admin:
            admin.clean()
        eventually(lambda: runs_left(store) <= 1, "runs without effect")
        assert log_files(store)[0] == 2 * LOG_FILE
        check_readable(store, sent)
        check_least(store)


def test_a_reader_keeps_its_file_for_a_while(tmp_path: Path) -> None:
    settings = {**BY_HAND, "destroy_mapped_file_interval_forcibly_ms": 3_600_000}
    with StoreProcess(tmp_path / "store", **settings) as store:
        sent = fill(store, 0, 1000)
        with Consumer(store.path, "alpha", queues=[0]) as consumer:
            found = consumer.poll(5)
            assert [view.queue_offset for view in found] == [0, 1, 2, 3, 4]
            await_durable(store)
            silo("clean", store=store.path)
            eventually(lambda: runs_left(store) <= 1, "clean has tried")
            assert log_files(store)[0] == 0, "the reader's file is there"
            while messages := consumer.poll(50):
                found += messages
            assert [v.queue_offset for v in found] == list(range(len(found)))
            assert len(found) == sent // 3 + 1
            assert consumer.missed == 0
            # It has read everything, and holds nothing any more.
            silo("clean", store=store.path)
            await_cleaned(store)
            assert consumer.poll(1) == []


def test_a_reader_keeps_a_file_that_grew_old_under_it(tmp_path: Path) -> None:
    settings = {**BY_HAND, "destroy_mapped_file_interval_forcibly_ms": 3_600_000}
    with StoreProcess(tmp_path / "store", **settings) as store:
        sent = fill(store, 0, 30)
        with Consumer(store.path, "alpha", queues=[0]) as consumer:
            found = consumer.poll(5)
            assert active(store) == 0, "it needs no lease yet"
            sent = fill(store, sent, 1000)
            found += consumer.poll(2)
            assert active(store) > 0
            await_durable(store)
            silo("clean", store=store.path)
            eventually(lambda: runs_left(store) <= 1, "clean has tried")
            assert log_files(store)[0] == 0
            while messages := consumer.poll(50):
                found += messages
            assert [v.queue_offset for v in found] == list(range(-(-sent // 3)))
            assert consumer.missed == 0


def test_a_lease_ends_with_its_reader(tmp_path: Path) -> None:
    settings = {**BY_HAND, "destroy_mapped_file_interval_forcibly_ms": 3_600_000}
    with StoreProcess(tmp_path / "store", **settings) as store:
        fill(store, 0, 1000)
        consumer = Consumer(store.path, "alpha")
        assert len(consumer.poll(3)) == 3
        store.replace("registry")
        store.replace("clean")
        await_durable(store)
        silo("clean", store=store.path)
        eventually(lambda: runs_left(store) <= 10, "clean has tried")
        assert log_files(store)[0] == 0, "a lease outlives the processes that know of it"
        consumer.close()
        silo("clean", store=store.path)
        await_cleaned(store)


def test_a_reader_that_is_too_slow_goes_on_at_the_earliest(tmp_path: Path) -> None:
    settings = {**BY_HAND, "destroy_mapped_file_interval_forcibly_ms": 100}
    with StoreProcess(tmp_path / "store", **settings) as store:
        sent = fill(store, 0, 1000)
        with Consumer(store.path, "alpha", queues=[0]) as consumer:
            first = consumer.poll(5)
            silo("clean", store=store.path)
            await_cleaned(store)
            # What it has been given stays, what is gone is counted.
            assert [owner_of(view.body)[1] for view in first] == [0, 3, 6, 9, 12]
            rest = []
            while messages := consumer.poll(50):
                rest += messages
            least = least_offsets(store, "alpha")[0]
            assert [v.queue_offset for v in rest] == list(range(least, sent // 3 + 1))
            assert consumer.missed == least - 5


def test_a_consumer_reads_while_files_go(tmp_path: Path) -> None:
    """It keeps up by and large; whatever it misses it knows of, and nothing comes twice."""
    with StoreProcess(tmp_path / "store", **ALWAYS) as store:
        sent = fill(store, 0, 1)
        with Consumer(store.path, "alpha") as consumer:
            found: list[MessageView] = []
            for _ in range(20):
                sent = fill(store, sent, 200)
                found += consumer.poll(150)
            while messages := consumer.poll(1000, 0.2):
                found += messages
            assert log_files(store)[0] > 0, "files went meanwhile"
            assert len(found) + consumer.missed == sent
        assert len({owner_of(view.body) for view in found}) == len(found)


def test_an_idle_reader_maps_no_old_file(tmp_path: Path) -> None:
    """Mapped files keep their disk space when they are removed; messages in hand keep theirs."""

    def mapped() -> set[int]:
        lines = Path("/proc/self/maps").read_text().splitlines()
        paths = [line.split(maxsplit=5)[-1].removesuffix(" (deleted)") for line in lines]
        log = f"{store.path}/commitlog/"
        return {int(path.removeprefix(log)) for path in paths if path.startswith(log)}

    with StoreProcess(tmp_path / "store", **BY_HAND) as store:
        fill(store, 0, 1000)
        with Consumer(store.path, "alpha") as consumer:
            first = consumer.poll(1)
            body = first[0].body
            while consumer.poll(1000, 0.05):
                pass
            assert mapped() == {0, active(store)}
            assert first[0].body == body
            first.clear()
            fill(store, 1000, 500)
            assert consumer.poll(1)
            consumer.seek(0, "latest")
            consumer.seek(1, "latest")
            consumer.seek(2, "latest")
            assert consumer.poll(1, 0.05) == []
            assert mapped() <= {active(store)}


def test_the_store_starts_again_after_cleaning(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store", **ALWAYS)
    with store:
        sent = fill(store, 0, 2000)
        await_cleaned(store)
    for how in (store.stop, store.crash):
        with store:
            assert log_files(store)[0] == store.control.load("min_offset") > 0
            check_least(store)
            check_readable(store, sent)
            sent = fill(store, sent, 300)
            await_cleaned(store)
            check_readable(store, sent)
            how()


def test_a_queue_that_lost_everything_goes_on_counting(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store", **ALWAYS)
    with store:
        with Producer(store.path) as producer:
            for _ in range(7):
                producer.send("quiet", b"x", queue=0)
        sent = fill(store, 0, 1000)
        await_cleaned(store)
        assert least_offsets(store, "quiet")[0] == 7
    with store:
        assert least_offsets(store, "quiet")[0] == 7
        with Producer(store.path) as producer:
            assert producer.send("quiet", b"y", queue=0).queue_offset == 7
        with Consumer(store.path, "quiet", offset=2) as consumer:
            (view,) = consumer.poll(10, 5.0)
            assert (view.queue_offset, view.body) == (7, b"y")
            assert consumer.missed == 5
        fill(store, sent, 10)


# -- kills


#: The passes of the short form, and those that the long form adds.
POINTS = {
    "clean:noted": ((2,), (1,)),
    "clean:published": ((1,), (2,)),
    "clean:corrected": ((2,), (1,)),
    "clean:unlinked": ((7,), (1, 2)),
    "clean:queue": ((3,), (1,)),
}


def test_every_point_of_clean_is_tried() -> None:
    assert points_in([ROOT / "actors" / "clean.py"]) == set(POINTS)


@pytest.mark.parametrize(
    "everyone", [pytest.param(False, id="clean"), pytest.param(True, id="everyone", marks=LONG)]
)
@pytest.mark.parametrize(("point", "passes"), deaths(POINTS))
def test_killed_between_steps(
    fault_build: Path, tmp_path: Path, point: str, passes: int, *, everyone: bool
) -> None:
    """Clean dies at the point; its successor, or the next start of the whole store, goes on."""
    fault = Fault(fault_build, tmp_path, point, passes)
    settings = {**BY_HAND, "delete_file_batch_max": 3, "environ": fault.environ}
    store = StoreProcess(tmp_path / "store", **settings)
    with store:
        sent = fill(store, 0, 1500)
        fault.arm()
        pid = store.pid("clean")
        with Admin(store.path) as admin:
            admin.clean()
        eventually(fault.happened, f"{point} was passed {passes} times")
        if everyone:
            store.crash()
            store.start()
            # What clean had not removed is all there again.
            check_least(store)
            check_readable(store, sent)
        else:
            store.await_successor("clean", pid)
        check_readable_now(store, sent)
        silo("clean", store=store.path)
        await_cleaned(store)
        await_runs(store)
        check_least(store)
        eventually(lambda: queues_are_clean(store), "queue files go")
        sent = fill(store, sent, 300)
        check_readable(store, sent)
        store.stop()
    with store:
        check_readable(store, sent)


def check_readable_now(store: StoreProcess, sent: int) -> None:
    """Files may go while it reads: what it does not miss is there, to the last message."""
    found: list[MessageView] = []
    with Consumer(store.path, "alpha") as consumer:
        while messages := consumer.poll(1000):
            found += messages
    for queue_id in range(3):
        offsets = [view.queue_offset for view in found if view.queue_id == queue_id]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] == (sent - 1 - queue_id) // 3
