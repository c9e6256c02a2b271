"""The benchmarks. Each is a function that runs a store, measures it together with a limit, and
returns rows.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..client.consuming.consumer import Consumer
from ..client.producing.producer import Producer
from .limits import CopyLimit, SyncLimit, sample_record
from .store import BenchStore

# The reference machine copied this many 1 KB records a second. On a slower machine, absolute bars
# are lowered in proportion.
REFERENCE_M = 5.5e6
BATCH = 256


@dataclass
class Row:
    """One figure: its samples in `unit`, the samples of a limit that was measured with it, and the
    bar that it must reach.
    """

    name: str
    unit: str
    samples: list[float]
    limit: str = ""
    limit_samples: list[float] = field(default_factory=list)
    bar: float = 0.0
    higher_is_better: bool = True
    bar_text: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def ratio(self) -> float | None:
        """Median of the figure over median of the limit."""
        return self.median / statistics.median(self.limit_samples) if self.limit_samples else None

    @property
    def passed(self) -> bool | None:
        if not self.bar:
            return None
        return self.median >= self.bar if self.higher_is_better else self.median <= self.bar


@dataclass
class Plan:
    """How much to measure: all, or a short form for tests, which only shows that everything
    runs.
    """

    folder: Path
    runs: int = 5
    scale: float = 1.0
    file_size: int = 1 << 30

    @classmethod
    def of(cls, folder: Path, runs: int, *, short: bool) -> Plan:
        """The full plan, or the short form."""
        return cls(folder, min(runs, 2), 0.002, 16 << 20) if short else cls(folder, runs)

    @property
    def warm_ups(self) -> int:
        """Runs that are not counted, in which compilers warm up. The short form has none."""
        return int(self.scale == 1.0)

    def count(self, full: int, least: int = 512) -> int:
        """How many messages to send, or topics to use."""
        return max(least, int(full * self.scale))


def _store(plan: Plan, *settings: str) -> BenchStore:
    return BenchStore(plan.folder, f"mapped_file_size_commit_log={plan.file_size}", *settings)


def _timed(
    store: BenchStore, producer: Producer, send: Callable[[], None], count: int
) -> tuple[float, float]:
    """(messages a second until all are appended, messages a second until all are dispatched)."""
    gc.collect()
    start = time.perf_counter()
    send()
    producer.flush(60)
    appended = time.perf_counter() - start
    store.wait_dispatched()
    return count / appended, count / (time.perf_counter() - start)


def _fill_file(store: BenchStore, producer: Producer, file_size: int) -> None:
    """Sends until a new commit-log file begins, and waits until the store is quiet.

    The messages that are timed then fit into that file. Making and warming another file takes a
    second of CPU time, which would distort one of the runs that are compared.
    """
    body = b"x" * (min(file_size, 1 << 20) // 16)
    control = store.control
    base = control.load("wrote") // file_size
    while control.load("wrote") // file_size == base:
        producer.send("bench", body)
    store.settle()


def throughput(plan: Plan, size: int) -> list[Row]:
    """One producer process, with one message or 256 messages a call: rates until appended and until
    dispatched.
    """
    limit = CopyLimit(plan.folder, min(plan.file_size, 512 << 20))
    body = b"x" * size
    oneway_count = plan.count(1_000_000 if size <= 128 else 400_000)
    batches = plan.count(2_000_000 if size <= 128 else 600_000) // BATCH
    figures: dict[str, list[float]] = {
        "one": [],
        "one_e2e": [],
        "batch": [],
        "batch_e2e": [],
        "M": [],
    }
    with _store(plan) as store, Producer(store.folder, timeout=60) as producer:
        send, send_batch, batch = producer.send_oneway, producer.send_batch_oneway, [body] * BATCH

        def one_by_one() -> None:
            for _ in range(oneway_count):
                send("bench", body)

        def in_batches() -> None:
            for _ in range(batches):
                send_batch("bench", batch)

        in_batches()  # warms the ring, the topic and the code
        for _ in range(plan.runs):
            figures["M"].append(limit.measure(size))
            store.settle()
            appended, dispatched = _timed(store, producer, one_by_one, oneway_count)
            figures["one"].append(appended)
            figures["one_e2e"].append(dispatched)
            store.settle()
            appended, dispatched = _timed(store, producer, in_batches, batches * BATCH)
            figures["batch"].append(appended)
            figures["batch_e2e"].append(dispatched)
    limit.close()
    return _throughput_rows(size, figures)


def _throughput_rows(size: int, figures: dict[str, list[float]]) -> list[Row]:
    copies = statistics.median(figures["M"])
    # M for 1 KB measures the machine, for both sizes; M for 128 B is only shown.
    slower = min(1.0, copies / REFERENCE_M) if size > 128 else 1.0
    one_bar = (1.2e6 if size <= 128 else 0.9e6) * slower
    batch_bar = 3e6 if size <= 128 else 0.4 * copies
    said = f"M ({size} B)"
    rows = []
    for key, name, bar, why in (
        ("one", "send_oneway, one call a message", one_bar, ""),
        ("batch", f"send_batch of {BATCH}", batch_bar, "" if size <= 128 else "0.4 x M"),
    ):
        appended, dispatched = figures[key], figures[f"{key}_e2e"]
        rows.append(
            Row(f"{name}, {size} B", "msg/s", appended, said, figures["M"], bar, bar_text=why)
        )
        end_bar = 0.6 * statistics.median(appended)
        rows.append(
            Row(
                f"  until dispatched, {size} B",
                "msg/s",
                dispatched,
                "appended",
                appended,
                end_bar,
                bar_text="0.6 x append rate",
            )
        )
    return rows


def file_rolls(plan: Plan) -> list[Row]:
    """Batches of 1 KB messages through several commit-log files, in each run and without a rest."""
    body, size, rates = [b"x" * 1024] * BATCH, 4 * plan.file_size, []
    with _store(plan) as store, Producer(store.folder, timeout=60) as producer:
        batches = size // (BATCH * 1200)
        for _ in range(plan.runs + plan.warm_ups):
            store.settle()
            start = time.perf_counter()
            for _ in range(batches):
                producer.send_batch_oneway("bench", body)
            producer.flush(60)
            rates.append(batches * BATCH / (time.perf_counter() - start))
    return [Row("through 4 file rolls, 1024 B", "msg/s", rates[plan.warm_ups :])]


def latency(plan: Plan, hand_over_us: list[float]) -> list[Row]:
    """`send`, one message at a time: microseconds until the append is acknowledged."""
    middle, high = [], []
    with _store(plan) as store, Producer(store.folder) as producer:
        body, count = b"x" * 128, plan.count(50_000)
        for _ in range(1000):
            producer.send("bench", body)
        for _ in range(plan.runs):
            store.settle()
            taken = []
            for _ in range(count):
                start = time.perf_counter()
                producer.send("bench", body)
                taken.append(time.perf_counter() - start)
            taken.sort()
            middle.append(taken[count // 2] * 1e6)
            high.append(taken[count * 99 // 100] * 1e6)
    said = "futex there and back"
    return [
        Row("send, acknowledged, p50", "us", middle, said, hand_over_us, 8, higher_is_better=False),
        Row("send, acknowledged, p99", "us", high, said, hand_over_us, 60, higher_is_better=False),
    ]


def sync_flush(plan: Plan) -> list[Row]:
    """SYNC_FLUSH: one durable send at a time, in turn with raw fdatasyncs, and 64 unanswered at a
    time.
    """
    limit = SyncLimit(plan.folder)
    record, body, count = sample_record(1024), b"x" * 1024, max(100, int(1000 * plan.scale))
    raw, ours, single, many = [], [], [], []
    size = min(plan.file_size, 256 << 20)
    with (
        BenchStore(
            plan.folder, "flush_disk_type=SYNC_FLUSH", f"mapped_file_size_commit_log={size}"
        ) as store,
        Producer(store.folder) as producer,
    ):
        many_count = max(2000, int(50_000 * plan.scale))
        # The first messages of a new store make allocate turn to more files ahead, whose zeros it
        # makes durable: as much as in the whole time afterwards.
        _in_flight(producer, body, 64, 2 * many_count)
        for _ in range(plan.runs):
            store.settle()
            taken, raw_taken = [], []
            for _ in range(10):
                raw_taken += limit.measure(record, count // 10)
                for _ in range(count // 10):
                    start = time.perf_counter()
                    producer.send("bench", body)
                    taken.append(time.perf_counter() - start)
            raw.append(statistics.median(raw_taken) * 1e6)
            ours.append(statistics.median(taken) * 1e6)
            single.append(len(taken) / sum(taken))
            many.append(_in_flight(producer, body, 64, many_count))
    limit.close()
    bar = 1.6 * statistics.median(raw)
    return [
        Row(
            "SYNC_FLUSH send, p50",
            "us",
            ours,
            "write + fdatasync",
            raw,
            bar,
            higher_is_better=False,
            bar_text="1.6 x raw",
        ),
        Row(
            "SYNC_FLUSH, 64 under way",
            "msg/s",
            many,
            "1 under way",
            single,
            25 * statistics.median(single),
            bar_text="25 x one",
        ),
    ]


def _in_flight(producer: Producer, body: bytes, window: int, count: int) -> float:
    """Durable sends a second with `window` of them unanswered."""
    under_way: deque[Any] = deque()
    start = time.perf_counter()
    for _ in range(count):
        if len(under_way) == window:
            under_way.popleft().result(10)
        under_way.append(producer.send_async("bench", body))
    while under_way:
        under_way.popleft().result(10)
    return count / (time.perf_counter() - start)


def many_topics(plan: Plan) -> list[Row]:
    """10,000 topics of 4 queues against one topic, with the same calls in the same store."""
    topics = [f"topic-{i:05d}" for i in range(plan.count(10_000, 64))]
    count, body = plan.count(4_000_000), b"x" * 128
    rates: dict[str, list[float]] = {"one": [], "one_e2e": [], "many": [], "many_e2e": []}
    with _store(plan) as store, Producer(store.folder, timeout=60) as producer:
        send = producer.send_oneway

        def over(names: list[str]) -> Callable[[], None]:
            turns = names * (count // len(names) + 1)

            def run() -> None:
                for name in turns[:count]:
                    send(name, body)

            return run

        one, many = over(["bench"] * len(topics)), over(topics)
        for _ in range(4):
            for name in topics:
                send(name, body)
        one()
        for _ in range(plan.runs):
            for key, run in (("one", one), ("many", many)):
                _fill_file(store, producer, plan.file_size)
                appended, dispatched = _timed(store, producer, run, count)
                rates[key].append(appended)
                rates[f"{key}_e2e"].append(dispatched)
    rows = []
    for suffix, name in (("", "append"), ("_e2e", "dispatch")):
        beside, figure = rates[f"one{suffix}"], rates[f"many{suffix}"]
        bar = 0.8 * statistics.median(beside)
        rows.append(
            Row(
                f"{len(topics)} topics x 4 queues, {name}",
                "msg/s",
                figure,
                "one topic",
                beside,
                bar,
                bar_text="0.8 x one topic",
            )
        )
    return rows


def idle(plan: Plan) -> list[Row]:
    """CPU of all processes of a store with an idle producer and an idle consumer, in percent of one
    core.
    """
    used = []
    seconds = 10.0 if plan.scale >= 1 else 3.0
    with _store(plan) as store, Producer(store.folder) as producer:
        producer.send("bench", b"x")
        with Consumer(store.folder, "bench") as consumer:
            consumer.poll(1, 5)
            store.settle()
            time.sleep(1)
            for _ in range(max(1, plan.runs // 2)):
                before = store.cpu_seconds()
                own = time.process_time()
                consumer.poll(1, seconds)
                spent = store.cpu_seconds() - before + time.process_time() - own
                used.append(spent / seconds * 100)
    return [
        Row("idle store, producer and consumer", "% of a core", used, bar=1, higher_is_better=False)
    ]
