"""What the data source reads, and what it does not touch: without Spark, on real stores."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from spark.reading import options, places, rows, tasks
from support.cleaned_stores import await_cleaned, await_durable, fill, log_files
from support.harness import StoreProcess, eventually
from support.load.messages import body_of
from support.small_settings import BY_HAND, LOG_FILE, load

from silomq import Admin, Producer
from silomq.pipeline.jobs import rebuild
from silomq.pipeline.source import snapshot
from silomq.pipeline.source.options import BadOption, parse
from silomq.pipeline.source.part_reader import Work
from silomq.pipeline.source.plan import ANYTHING, Pushed
from silomq.pipeline.source.snapshot import DataLoss, NotAStore
from silomq.store.commitlog.log_reader import LogReader
from silomq.store.disk.paths import StoreFolders
from silomq.store.errors import Corrupt
from silomq.tools.raw.files import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 3000
#: The ways to read all of it.
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"subscribe": "alpha,rare"},
    {"maxPartitionBytes": 5000},
)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with many small files: a large topic, and one of one message in a hundred."""
    with StoreProcess(tmp_path_factory.mktemp("parts") / "store", **BY_HAND) as store:
        with Producer(store.path) as producer:
            for i in range(COUNT):
                topic = "rare" if i % 100 == 99 else "alpha"
                producer.send_async(topic, body_of(0, i) * 4, queue=i % 3)
            producer.flush()
        eventually(lambda: store.control.load("dispatched") == store.control.load("wrote"), "all")
        store.stop()
        return store.path


@pytest.fixture
def copy(stopped: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stopped, tmp_path / "copy", ignore=shutil.ignore_patterns("*.sock"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "store", **BY_HAND) as found:
        yield found


def test_tasks_share_the_log_without_gap_or_overlap(stopped: Path) -> None:
    whole = places(stopped)
    assert len(whole) == COUNT
    for size in (1000, 7777, LOG_FILE, 10 * LOG_FILE):
        assert places(stopped, maxPartitionBytes=size) == whole
    assert len(tasks(stopped, minPartitions=16)) >= 16
    assert places(stopped, minPartitions=16) == whole
    assert len(tasks(stopped, subscribe="alpha,rare", minPartitions=16)) == 16
    assert places(stopped, subscribe="alpha,rare", minPartitions=16) == whole


def test_a_small_question_touches_little(stopped: Path) -> None:
    """One topic in a window of time: counted in bytes of log and queues that are looked at."""

    def touched(pushed: Pushed = ANYTHING) -> tuple[int, int]:
        work = Work()
        planned = tasks(stopped, pushed=pushed)
        found, _ = rows(planned, options(stopped), ["topic", "storeTimestamp"], work)
        return work.touched, len(found)

    full, count = touched()
    assert count == COUNT
    few, rare = touched(Pushed(topics=frozenset(["rare"])))
    assert rare == COUNT // 100
    assert few < full * 0.05
    stored, _ = rows(tasks(stopped), options(stopped), ["storeTimestamp", "physicalOffset"])
    times = sorted(round(row["store_timestamp"].timestamp() * 1000) for row in stored)
    window = (times[COUNT // 2], times[COUNT // 2 + COUNT // 100])
    part, within = touched(Pushed(topics=frozenset(["alpha"]), times=window))
    wanted = sum(window[0] <= time <= window[1] for time in times)
    assert wanted * 0.9 <= within <= wanted
    assert part <= full * 1.1 * within / COUNT
    # Without a topic whole files are left out.
    assert touched(Pushed(times=window))[0] <= full * within / COUNT + 3 * LOG_FILE
    place = stored[10]["physical_offset"]
    assert touched(Pushed(places=(place, place)))[0] < LOG_FILE


def test_offsets_and_times_as_asked(stopped: Path) -> None:
    chosen = options(stopped, subscribe="alpha")
    columns = ["queueId", "queueOffset", "storeTimestamp"]
    everything, _ = rows(tasks(stopped, subscribe="alpha"), chosen, columns)
    starting = '{"alpha": {"0": 10, "1": -1, "2": -2}}'
    given: dict[str, Any] = {
        "subscribe": "alpha",
        "startingOffsets": starting,
        "endingOffsets": "latest",
    }
    found, _ = rows(tasks(stopped, **given), options(stopped, **given), columns)
    wanted = [
        row
        for row in everything
        if row["queue_id"] == 2 or (row["queue_id"] == 0 and row["queue_offset"] >= 10)
    ]
    assert found == wanted
    middle = everything[500]["store_timestamp"]
    at = round(middle.timestamp() * 1000)
    patterns: tuple[dict[str, Any], ...] = ({"subscribePattern": "al.*"}, {})
    for given in patterns:
        found, _ = rows(
            tasks(stopped, startingTimestamp=at, endingTimestamp=at + 5, **given),
            options(stopped, startingTimestamp=at, endingTimestamp=at + 5, **given),
            ["topic", "storeTimestamp"],
        )
        alpha = [r for r in found if r["topic"] == "alpha"]
        stamps = [round(r["store_timestamp"].timestamp() * 1000) for r in everything]
        assert len(alpha) == sum(at <= stamp <= at + 5 for stamp in stamps) > 0
    with pytest.raises(DataLoss, match="900000 to"):
        tasks(stopped, subscribe="alpha", startingOffsets='{"alpha": {"0": 900000}}')


def test_damage_stops_or_is_passed_over(copy: Path) -> None:
    intact = places(copy)
    bad = intact[100]
    path = copy / "commitlog" / f"{bad - bad % LOG_FILE:020d}"
    with path.open("r+b") as file:
        file.seek(bad % LOG_FILE)
        file.write(b"\xff\xff")
    for given in KINDS:
        with pytest.raises(Corrupt, match=f"{path.name}, offset {bad}"):
            places(copy, **given)
        chosen = options(copy, onCorrupt="row", **given)
        found, damage = rows(tasks(copy, **given), chosen, ["physicalOffset"])
        left = sorted(row["physical_offset"] for row in found)
        assert left == [place for place in intact if place != bad]
        assert [one.start for one in damage] == [bad]
        assert path.name in damage[0].why


def test_a_wrong_body_is_found_when_asked(copy: Path) -> None:
    bad = places(copy)[100]
    path = copy / "commitlog" / f"{bad - bad % LOG_FILE:020d}"
    with path.open("r+b") as file:
        file.seek(bad % LOG_FILE + 90)
        file.write(b"\xff\xff")
    assert len(places(copy)) == COUNT
    for given in KINDS:
        with pytest.raises(Corrupt, match=f"offset {bad}"):
            places(copy, verifyCrc="true", **given)


def test_zeros_in_the_middle_of_the_log_are_no_end(copy: Path) -> None:
    bad = places(copy)[100]
    base = bad - bad % LOG_FILE
    with (copy / "commitlog" / f"{base:020d}").open("r+b") as file:
        file.seek(bad - base)
        file.write(bytes(base + LOG_FILE - bad))
    with pytest.raises(Corrupt, match=f"offset {bad}"):
        places(copy)


def test_a_store_being_written_gives_a_prefix(store: StoreProcess) -> None:
    sent = 0
    for _ in range(5):
        sent = fill(store, sent, 200)
        planned = tasks(store.path)
        by_queue = tasks(store.path, subscribe="alpha")
        sent = fill(store, sent, 300)
        for some in (planned, by_queue):
            found, _ = rows(some, options(store.path), ["body"])
            assert {row["body"] for row in found} == {body_of(0, i) for i in range(sent - 300)}
            assert len(found) == sent - 300


def test_files_that_go_after_planning(store: StoreProcess) -> None:
    """Rows or a clear error, and with failOnDataLoss=false the rows that are left."""
    fill(store, 0, 3000)
    await_durable(store)
    before = log_files(store)
    planned = [tasks(store.path), tasks(store.path, subscribe="alpha")]
    whole, _ = rows(planned[0], options(store.path), ["physicalOffset", "body"])
    with Admin(store.path) as admin:
        admin.clean()
    await_cleaned(store)
    least = log_files(store)[0]
    assert least > before[2]
    for some in planned:
        with pytest.raises(DataLoss, match="failOnDataLoss"):
            rows(some, options(store.path))
        work = Work()
        lenient = options(store.path, failOnDataLoss="false")
        found, _ = rows(some, lenient, ["physicalOffset", "body"], work)
        left = [row for row in whole if row["physical_offset"] >= least]
        key = "physical_offset"
        assert sorted(found, key=lambda r: int(r[key])) == sorted(left, key=lambda r: int(r[key]))
        assert len(found) < len(whole)
    with pytest.raises(DataLoss, match="queue 0 of alpha holds"):
        tasks(store.path, subscribe="alpha", startingOffsets='{"alpha": {"0": 0}}')


def test_an_open_file_outlives_its_name(store: StoreProcess) -> None:
    fill(store, 0, 3000)
    await_durable(store)
    with StoreFolders(store.path) as folders:
        reader = LogReader(folders.commit_log, LOG_FILE)
        memory = memoryview(reader.file(log_files(store)[0]))
    kept = bytes(memory)
    with Admin(store.path) as admin:
        admin.clean()
    await_cleaned(store)
    assert bytes(memory) == kept


def test_a_snapshot_says_the_same_running_and_stopped(store: StoreProcess) -> None:
    fill(store, 0, 500)
    running = snapshot.take(store.path)
    assert running.queues_whole
    store.stop()
    assert snapshot.take(store.path) == running


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribes": "a"}, "no option subscribes"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "subscribe and assign"),
        ({"assign": '{"a":["0"]}'}, "assign: JSON"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"startingOffsets": "0"}, "earliest, latest, or JSON"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "-2 is the earliest"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "both given"),
        ({"endingOffsets": "earliest"}, "nothing has been read"),
        ({"minPartitions": "0"}, "a whole number from 1"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"onCorrupt": "ignore"}, "one of fail, skip, row"),
        ({"path": ""}, "which store"),
    ],
)
def test_bad_options_are_explained(given: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        parse({"path": "/x", **given}, streaming=False)


def test_what_is_no_store_is_refused(tmp_path: Path, copy: Path) -> None:
    with pytest.raises(NotAStore, match="no folder commitlog"):
        tasks(tmp_path)
    with pytest.raises(NotAStore, match="no folder fits"):
        options(tmp_path / "none*").stores()
    with (copy / "commitlog" / f"{LOG_FILE:020d}").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(NotAStore, match="has 100 bytes"):
        tasks(copy)


def test_a_light_queue_has_rows_of_its_own(tmp_path: Path) -> None:
    """A row's topic, queue and queue offset are those by which queries choose: not those of the
    queue in which the message lies too. `silo repair` makes such queues anew, the Spark job not.
    """
    light = {**BY_HAND, "enable_lmq": "true", "enable_multi_dispatch": "true"}
    with StoreProcess(tmp_path / "store", **light) as store:
        with Producer(store.path) as producer:
            for i in range(30):
                names = "%LMQ%one" if i % 3 else "%LMQ%one,%LMQ%two"
                producer.send("t", b"%d" % i, queue=2, properties={"INNER_MULTI_DISPATCH": names})
        store.await_dispatch()
        store.stop()
        path = store.path
    wanted = [("%LMQ%two", 0, i, b"%d" % (3 * i)) for i in range(10)]
    wanted += [("t", 2, i, b"%d" % i) for i in range(30)]
    chosen = options(path, subscribe="%LMQ%two,t", verifyCrc=True)
    found, damage = rows(tasks(path, subscribe="%LMQ%two,t"), chosen)
    assert not damage
    places_of = [(r["topic"], r["queue_id"], r["queue_offset"], r["body"]) for r in found]
    assert sorted(places_of) == sorted(wanted)
    few, _ = rows(tasks(path, subscribe="%LMQ%two"), chosen, ["queueOffset"])
    assert [row["queue_offset"] for row in few] == list(range(10))
    with pytest.raises(BadInput, match="light queues such as %LMQ%one are not made anew"):
        rebuild._plan(str(path), str(tmp_path / "new"), load(path, light))
