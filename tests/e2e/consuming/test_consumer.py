"""The consumer against a real store: where it begins, how it waits, whose it is."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import StoreProcess, eventually, tries_within

from silomq import (
    Consumer,
    IllegalArgument,
    IllegalMessage,
    IllegalType,
    Producer,
    StoreClosed,
    StoreError,
)
from silomq.shm.control import CONTROL
from silomq.store.errors import Corrupt

if TYPE_CHECKING:
    from pathlib import Path

    from silomq import MessageView
    from silomq.client.consuming.consumer import Offset

QUEUES = 4


@pytest.fixture(scope="module")
def filled(store: StoreProcess) -> str:
    """A topic with 3,000 messages in each of its queues: more than a queue file holds."""
    with Producer(store.path, timeout=10.0) as producer:
        for start in range(0, 3000, 100):
            for queue in range(QUEUES):
                bodies = [b"%d:%d" % (queue, i) for i in range(start, start + 100)]
                producer.send_batch_oneway("filled", bodies, queue=queue)
        producer.flush()
    store.await_dispatch()
    return "filled"


def places(messages: list[MessageView]) -> list[tuple[int, int]]:
    for view in messages:
        assert view.body == b"%d:%d" % (view.queue_id, view.queue_offset)
    return [(view.queue_id, view.queue_offset) for view in messages]


def drain(consumer: Consumer) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while messages := consumer.poll(500):
        assert len(messages) <= 500
        found += places(messages)
    return found


def test_earliest_gives_everything_in_order(store: StoreProcess, filled: str) -> None:
    with Consumer(store.path, filled) as consumer:
        assert consumer.lag() == 3000 * QUEUES
        found = drain(consumer)
        assert sorted(found) == [(q, i) for q in range(QUEUES) for i in range(3000)]
        for queue in range(QUEUES):
            assert [i for q, i in found if q == queue] == list(range(3000))
        assert consumer.lag() == 0
        assert consumer.positions() == dict.fromkeys(range(QUEUES), 3000)


def test_one_poll_takes_from_all_queues_in_turn(store: StoreProcess, filled: str) -> None:
    with Consumer(store.path, filled) as consumer:
        first = [consumer.poll(10)[0].queue_id for _ in range(QUEUES)]
    assert sorted(first) == list(range(QUEUES))


def test_latest_gives_what_comes_later(store: StoreProcess, filled: str) -> None:
    with Consumer(store.path, filled, offset="latest") as consumer:
        assert consumer.poll() == []
        assert consumer.positions() == dict.fromkeys(range(QUEUES), 3000)


@pytest.mark.parametrize("start", [0, 1, 2047, 2048, 2999])
def test_an_offset_is_where_every_queue_starts(
    store: StoreProcess, filled: str, start: int
) -> None:
    with Consumer(store.path, filled, queues=[2], offset=start) as consumer:
        assert drain(consumer) == [(2, i) for i in range(start, 3000)]


def test_each_queue_may_start_elsewhere(store: StoreProcess, filled: str) -> None:
    starts: dict[int, Offset] = {0: 2990, 1: "latest", 3: "earliest"}
    with Consumer(store.path, filled, queues=[0, 1, 3], offset=starts) as consumer:
        assert sorted(drain(consumer)) == [
            *((0, i) for i in range(2990, 3000)),
            *((3, i) for i in range(3000)),
        ]


def test_a_time_is_where_every_queue_starts(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        for number in range(5):
            producer.send("timed", b"%d" % number, queue=number % 2)
        time.sleep(0.01)
        between = time.time_ns() // 1_000_000
        for number in range(3):
            producer.send("timed", b"%d" % number, queue=number % 2)
    store.await_dispatch()
    moment = dt.datetime.fromtimestamp(between / 1000, dt.UTC)
    later: list[Any] = [between, str(between), moment, moment.isoformat()]
    for start, positions in [
        *((form, {0: 3, 1: 2}) for form in later),
        *((form, {0: 0, 1: 0}) for form in ("1h ago", 0, "earliest", None)),
        *((form, {0: 5, 1: 3}) for form in (between + 3_600_000, "latest")),
    ]:
        with Consumer(store.path, "timed", queues=[0, 1], start=start) as consumer:
            assert consumer.positions() == positions, start
            assert consumer.missed == 0


@pytest.mark.parametrize("bad", ["oldest", -1, True, 1.5, 2**63, b"1h", "", "1 fortnight"])
def test_bad_times_are_refused(store: StoreProcess, filled: str, bad: Any) -> None:
    with pytest.raises((IllegalArgument, IllegalType), match=r"start.*'earliest'.*'latest'.* time"):
        Consumer(store.path, filled, start=bad)


def test_an_offset_and_a_time_together_are_refused(store: StoreProcess, filled: str) -> None:
    with pytest.raises(IllegalArgument, match="offset and start: give one of them"):
        Consumer(store.path, filled, offset=5, start="1h")


def test_seek_goes_back_and_forth(store: StoreProcess, filled: str) -> None:
    with Consumer(store.path, filled, queues=[1], offset="latest") as consumer:
        consumer.seek(1, 2998)
        assert places(consumer.poll()) == [(1, 2998), (1, 2999)]
        consumer.seek(1, "earliest")
        assert places(consumer.poll(1)) == [(1, 0)]
        consumer.seek(1, "latest")
        assert consumer.poll() == []
        with pytest.raises(StoreError, match="does not read queue 0"):
            consumer.seek(0, 5)


def test_beyond_the_end_it_waits_for_its_offset(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        producer.send("ahead", b"0", queue=0)
        with Consumer(store.path, "ahead", queues=[0], offset=2) as consumer:
            assert consumer.poll(1, 0.05) == []
            for i in range(1, 4):
                producer.send("ahead", b"%d" % i, queue=0)
            assert consumer.poll(1, 5.0)[0].body == b"2"


@pytest.mark.parametrize("bad", ["oldest", -1, True, 1.5])
def test_bad_offsets_are_refused(store: StoreProcess, filled: str, bad: object) -> None:
    with pytest.raises(
        (IllegalArgument, IllegalType), match="'earliest', 'latest' or a queue offset"
    ):
        Consumer(store.path, filled, offset=bad)  # type: ignore[arg-type] # on purpose


def test_bad_queues_and_topics_are_refused(store: StoreProcess, filled: str) -> None:
    with pytest.raises(ValueError, match="it has queues 0 to 3"):
        Consumer(store.path, filled, queues=[4])
    with pytest.raises(IllegalMessage, match="does not exist"):
        Consumer(store.path, "no-such-topic")


def test_poll_waits_no_longer_than_told(store: StoreProcess, filled: str) -> None:
    with Consumer(store.path, filled, offset="latest") as consumer:
        for timeout in (0.0, 0.1, 1.2):

            def wait(timeout: float = timeout) -> None:
                began = time.monotonic()
                assert consumer.poll(1, timeout) == []
                assert time.monotonic() - began >= timeout

            tries_within(timeout + 0.3, wait)


def test_wakes_up_within_milliseconds(
    store: StoreProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    latencies: list[float] = []
    with Producer(store.path) as producer:
        producer.send("wake", b"0", queue=0)
        store.await_dispatch()
        ready = threading.Event()

        def consume() -> None:
            with Consumer(store.path, "wake", offset="latest") as consumer:
                ready.set()
                while len(latencies) < 40:
                    found = consumer.poll(10, 5.0)
                    now = time.monotonic_ns()
                    latencies.extend((now - int(view.body)) / 1e6 for view in found)

        thread = threading.Thread(target=consume)
        thread.start()
        assert ready.wait(5)
        while thread.is_alive():
            producer.send("wake", b"%d" % time.monotonic_ns())
            time.sleep(0.01)
        thread.join()
    latencies.sort()
    with capsys.disabled():
        print(f"\nfrom send to poll: median {latencies[20]:.2f} ms, worst {latencies[-1]:.1f} ms")
    assert latencies[20] < 20


def test_damaged_messages_are_named(tmp_path: Path) -> None:
    """With `check_crc` no wrong body is handed out; what is good before and behind is."""
    with StoreProcess(tmp_path / "store") as store:
        with Producer(store.path) as producer:
            sent = [producer.send("t", b"%04d" % i * 50, queue=0) for i in range(20)]
        store.await_dispatch()
        (path,) = [p for p in (store.path / "commitlog").iterdir() if int(p.name) == 0]
        with path.open("r+b") as file:
            file.seek(sent[7].physical_offset + 120)
            file.write(b"!")
        with Consumer(store.path, "t", queues=[0], check_crc=True) as consumer:
            assert [m.queue_offset for m in consumer.poll(100)] == list(range(7))
            for _ in range(2):
                with pytest.raises(Corrupt) as error:
                    consumer.poll(100)
                assert error.value.offset == sent[7].physical_offset
            consumer.seek(0, 8)
            assert [m.body for m in consumer.poll(100)] == [b"%04d" % i * 50 for i in range(8, 20)]
        with Consumer(store.path, "t", queues=[0]) as consumer:
            assert len(consumer.poll(100)) == 20


def test_reput_is_told_which_queues_have_sleepers(store: StoreProcess, filled: str) -> None:
    def watched() -> int:
        size = CONTROL["watched"][1]
        return sum(store.control.word("watched", at).load().bit_count() for at in range(0, size, 8))

    eventually(lambda: watched() == 0, "no reader, no watch")
    with Consumer(store.path, filled, queues=[1]):
        assert watched() == 1
        with Consumer(store.path, filled):
            assert watched() == QUEUES
        store.replace("registry")
        with Consumer(store.path, filled, queues=[2]):
            assert watched() == QUEUES, "marks stay while anybody reads, and outlive the registry"
    eventually(lambda: watched() == 0, "no reader, no watch")


def test_iteration_waits_for_the_next_message(store: StoreProcess) -> None:
    with Producer(store.path) as producer:
        for i in range(10):
            producer.send("iterate", b"%d" % i, queue=0)
        later = threading.Timer(0.2, producer.send, ("iterate", b"10"), {"queue": 0})
        later.start()
        with Consumer(store.path, "iterate", queues=[0]) as consumer:
            bodies = [view.body for view in itertools.islice(consumer, 11)]
        later.join()
    assert bodies == [b"%d" % i for i in range(11)]


def test_belongs_to_its_thread(store: StoreProcess, filled: str) -> None:
    with Consumer(store.path, filled) as consumer:
        raised: list[BaseException] = []

        def use() -> None:
            try:
                consumer.poll()
            except RuntimeError as error:
                raised.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        assert [str(error) for error in raised] == [
            "a Consumer belongs to the thread that made it: make one for each thread"
        ]
        assert consumer.poll(1)


def test_reads_the_rest_and_then_says_that_the_store_stopped(store: StoreProcess) -> None:
    """The last test of this module: it stops the module's store, and starts it again."""
    with Producer(store.path) as producer:
        for i in range(10):
            producer.send("rest", b"%d" % i, queue=0)
    store.await_dispatch()
    consumer = Consumer(store.path, "rest")
    iterated = Consumer(store.path, "rest")
    store.stop()
    assert len(consumer.poll(100, 1.0)) == 10
    with pytest.raises(StoreClosed, match="stopped"):
        consumer.poll(1, 5.0)
    assert len(list(iterated)) == 10
    consumer.close()
    iterated.close()
    store.start()
