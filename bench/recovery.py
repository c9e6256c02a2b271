"""`make bench-recovery`: how fast a store restarts and is checked, beside what the machine can read
and check.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click

from ..client.producing.producer import Producer
from ..shm._checksum import crc32
from ..shm._memory import Mapping
from ..store.commitlog import _scan as kernel
from ..store.disk import files as disk
from .limits import sample_record
from .rows import Plan, Row
from .run import bench_console, report
from .store import BenchStore
from .verify import verify_rates

_CHUNK = 16 << 20
_BODY = 1024


def scan_rates(plan: Plan) -> list[Row]:
    """The scan kernel over a warm file of 1 KB records, against copying and checksumming the
    file.
    """
    size = plan.file_size
    path = plan.folder / "scan"
    path.touch()
    with disk.Folder.open(plan.folder) as folder, folder.file("scan", write=True) as fd:
        disk.allocate(fd, 0, size)
        mapping = Mapping(fd, 0, size)
    view = memoryview(mapping)
    record = bytearray(sample_record(_BODY))
    position = 0
    while position + len(record) + 8 <= size:
        record[28:36] = position.to_bytes(8, "big")
        view[position : position + len(record)] = record
        position += len(record)
    target = bytearray(_CHUNK)
    figures: dict[str, list[float]] = {"copy": [], "crc": [], "off": [], "on": []}
    for _ in range(plan.runs):
        figures["copy"].append(_rate(position, lambda: _copy(view, position, target)))
        figures["crc"].append(_rate(position, lambda: _crc(view, position)))
        figures["off"].append(_rate(position, lambda: _scan(view, position, check=False)))
        figures["on"].append(_rate(position, lambda: _scan(view, position, check=True)))
    view.release()
    path.unlink()
    crc = sorted(figures["crc"])[len(figures["crc"]) // 2]
    return [
        Row("scan, CRC off", "GB/s", figures["off"], "memcpy", figures["copy"], 1.5),
        Row(
            "scan, CRC on", "GB/s", figures["on"], "crc32", figures["crc"], 0.6 * crc,
            bar_text="0.6 x crc32",
        ),
    ]  # fmt: skip


def _rate(size: int, work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator] # a function without arguments
    return size / (time.perf_counter() - start) / 1e9


def _copy(view: memoryview, end: int, target: bytearray) -> None:
    for at in range(0, end - _CHUNK, _CHUNK):
        target[:] = view[at : at + _CHUNK]


def _crc(view: memoryview, end: int) -> None:
    for at in range(0, end - _CHUNK, _CHUNK):
        crc32(view[at : at + _CHUNK])


def _scan(view: memoryview, end: int, *, check: bool) -> None:
    found = kernel.scan(view, 0, 0, check)
    if found[0] != end:
        sys.exit(f"the scan stopped at {found[0]} of {end}")


def first_start(plan: Plan) -> list[Row]:
    """A new store with the settings that are shipped: seconds until it has taken a message."""
    taken = []
    for _ in range(plan.runs):
        with BenchStore(plan.folder, probe=True) as store:
            taken.append(store.started_s)
    return [Row("first start of a new store", "s", taken, bar=0.5, higher_is_better=False)]


def restarts(plan: Plan) -> list[Row]:
    """A store of 4 GB (less in the short form), killed under full load or stopped cleanly: seconds
    until it takes messages again, with its files in the page cache and without.
    """
    taken: dict[tuple[bool, bool], list[float]] = {}
    with BenchStore(
        plan.folder, f"mapped_file_size_commit_log={plan.file_size}", probe=True
    ) as store:
        _send(store, 4 * plan.file_size)
        for _ in range(plan.runs):
            for kill in (True, False):
                for cold in (False, True):
                    with Producer(store.folder, timeout=60) as producer:
                        _send_with(producer, plan.file_size)
                        if not kill:
                            producer.flush(60)
                        seconds = store.restart(kill=kill, cold=cold)
                    taken.setdefault((kill, cold), []).append(seconds)
    names = {True: "after kill -9 under load", False: "after a clean stop"}
    return [
        Row(
            f"restart of a 4 GB store {names[kill]}, {'cold' if cold else 'hot'}",
            "s",
            seconds,
            bar=(0.0 if cold else 2.0) if kill else 1.0,
            higher_is_better=False,
        )
        for (kill, cold), seconds in taken.items()
    ]


def _send(store: BenchStore, size: int) -> None:
    with Producer(store.folder, timeout=60) as producer:
        _send_with(producer, size)
        producer.flush(60)


def _send_with(producer: Producer, size: int) -> None:
    """Sends `size` bytes, and does not wait for the last answers."""
    batch = [b"x" * _BODY] * 256
    for _ in range(size // (256 * _BODY)):
        producer.send_batch_oneway("bench", batch)


def clean_start(plan: Plan) -> list[Row]:
    """200 commit-log files and 10,000 queues, cleanly stopped: seconds until the store serves
    again.
    """
    topics = [f"topic-{i:05d}" for i in range(plan.count(2500, 64))]
    size = 1 << 20
    with BenchStore(plan.folder, f"mapped_file_size_commit_log={size}", probe=True) as store:
        with Producer(store.folder, timeout=60) as producer:
            for _ in range(4):
                for name in topics:
                    producer.send_oneway(name, b"x" * 128)
            body = b"x" * 60_000
            for _ in range(plan.count(3500, 64)):
                producer.send_oneway("bench", body)
            producer.flush(60)
        store.wait_dispatched()
        taken = [store.restart(kill=False) for _ in range(plan.runs)]
    name = f"clean start, 200 files and {4 * len(topics)} queues"
    return [Row(name, "s", taken, bar=1.0, higher_is_better=False)]


def many_topics(plan: Plan) -> list[Row]:
    """20,000 topics with 4 queues each, all with messages: seconds until the store serves again,
    after a clean stop and after a kill of all processes.
    """
    topics = [f"topic-{i:05d}" for i in range(plan.count(20_000, 128))]
    limits = f"max_topics={len(topics) + 8}", f"max_queues={4 * len(topics) + 64}"
    taken: dict[bool, list[float]] = {False: [], True: []}
    with BenchStore(
        plan.folder, f"mapped_file_size_commit_log={8 << 20}", *limits, probe=True
    ) as store:
        with Producer(store.folder, timeout=60) as producer:
            for _ in range(4):
                for name in topics:
                    producer.send_oneway(name, b"x" * 128)
            producer.flush(60)
        store.settle()
        for _ in range(plan.runs):
            for kill, seconds in taken.items():
                seconds.append(store.restart(kill=kill))
    return [
        Row(
            f"start after a {'kill -9' if kill else 'clean stop'}, {len(topics)} topics x 4 queues",
            "s", seconds, bar=5.0 if kill else 3.0, higher_is_better=False,
        )
        for kill, seconds in taken.items()
    ]  # fmt: skip


@click.command()
@click.option("--runs", default=5, show_default=True, help="runs of each figure")
@click.option("--short", is_flag=True, help="a short form that only shows that everything runs")
@click.option("--folder", type=click.Path(path_type=Path), help="where to put stores (a real disk)")
@click.option("--output", type=click.Path(path_type=Path), default=Path("build/recovery.json"))
def main(*, runs: int, short: bool, folder: Path | None, output: Path) -> None:
    """Measures recovery against this machine's limits. Run it alone: it needs both cores."""
    console = bench_console()
    with tempfile.TemporaryDirectory(prefix="silomq-bench-", dir=folder or Path.cwd()) as inside:
        plan = Plan.of(Path(inside), 1 if short else runs, short=short)
        found = [
            *scan_rates(plan),
            *first_start(plan),
            *clean_start(plan),
            *many_topics(plan),
            *restarts(plan),
            *verify_rates(plan),
        ]
    report(found, plan, console, output)


if __name__ == "__main__":
    main()
