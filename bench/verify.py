"""`silo verify` beside reading the same files, with a hot and with a cold page cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from ..client.producing.producer import Producer
from ..tools.raw.files import read_settings
from ..tools.verify.verify import verify
from .rows import BATCH, Plan, Row
from .store import BenchStore

_BLOCK: Final = 1 << 20
_TOPICS: Final = 8
#: What the command takes for this many records, its start included.
_RECORDS: Final = 100_000
_FOLDERS: Final = ("commitlog", "consumequeue", "index")


def verify_rates(plan: Plan) -> list[Row]:
    """The bytes of all files a second, checked and read, for bodies of 1 KB and of 128 bytes; and
    the seconds of the whole command for a small store.
    """
    rows = []
    for body in (1024, 128):
        path = _stopped_store(plan, body, 4 * plan.file_size // (body + 160))
        rows += [_rate(plan, path, body, cold=cold) for cold in (False, True)]
        shutil.rmtree(path)
    path = _stopped_store(plan, 128, plan.count(_RECORDS))
    rows.append(_command(plan, path))
    shutil.rmtree(path)
    return rows


def _stopped_store(plan: Plan, body: int, count: int) -> Path:
    """A stopped store with `count` messages of `body` bytes, each with a UNIQ_KEY."""
    size = f"mapped_file_size_commit_log={plan.file_size}"
    path = plan.folder / f"verify-{body}-{count}"
    with BenchStore(plan.folder, size) as store:
        with Producer(store.folder, timeout=60) as producer:
            batch = [b"x" * body] * BATCH
            for number in range(-(-count // BATCH)):
                producer.send_batch_oneway(f"bench-{number % _TOPICS}", batch)
            producer.flush(60)
        store.wait_dispatched()
        store.admin.close()
        store.process.terminate()
        store.process.wait(60)
        store.folder.rename(path)
    return path


def _rate(plan: Plan, path: Path, body: int, *, cold: bool) -> Row:
    """What is cold is read from the disk by both, and dropped from the page cache before."""
    files = [file for name in _FOLDERS for file in (path / name).rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    settings = read_settings(None, (), path)

    def check() -> None:
        report = verify(path, settings)
        if not report.sound:
            sys.exit(f"a sound store has findings: {report.findings[:3]}")

    samples, limits = [], []
    for _ in range(plan.runs + plan.warm_ups):
        limits.append(_seconds(lambda: _read(files), files, cold=cold))
        samples.append(_seconds(check, files, cold=cold))
    rates = [size / taken / 1e9 for taken in samples[plan.warm_ups :]]
    reading = [size / taken / 1e9 for taken in limits[plan.warm_ups :]]
    half = 0.5 * sorted(reading)[len(reading) // 2]
    name = f"verify, {body} B, {'cold' if cold else 'hot'}"
    return Row(name, "GB/s", rates, "reading", reading, half, bar_text="0.5 x reading")


def _seconds(work: Callable[[], None], files: list[Path], *, cold: bool) -> float:
    if cold:
        for file in files:
            _drop(file)
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _drop(file: Path) -> None:
    """Drops a file from the page cache. Only pages that are on the disk can be dropped."""
    fd = os.open(file, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def _read(files: list[Path]) -> None:
    """Reads all files with a thread for each core, as fast as the machine can."""

    def read(file: Path) -> None:
        block = bytearray(_BLOCK)
        fd = os.open(file, os.O_RDONLY)
        while os.readv(fd, [block]):
            pass
        os.close(fd)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(read, files))


def _command(plan: Plan, path: Path) -> Row:
    command = [sys.executable, "-P", "-m", "silomq.cli.main", "verify", str(path)]
    taken = []
    for _ in range(plan.runs + plan.warm_ups):
        began = time.perf_counter()
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    name = f"silo verify, {plan.count(_RECORDS):,} records, whole command"
    return Row(name, "s", taken[plan.warm_ups :], bar=1.0, higher_is_better=False)
