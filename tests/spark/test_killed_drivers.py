"""Drivers killed in the middle of publishing: each message comes through exactly once."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

pytest.importorskip("pyspark")

from spark.publishing import TOPIC, column_in, exactly
from spark.sink_driver import BATCH, copy
from spark.sinks import dispatched, rows_of, staged
from support.harness import LONG, StoreProcess

from silomq import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

DRIVER = Path(__file__).parent / "sink_driver.py"
KILLS = 20 if os.environ.get("SILOMQ_LONG") == "1" else 2


def kill_driver(process: subprocess.Popen[bytes], *, workers: bool) -> None:
    """SIGKILL for the driver and its JVM; with `workers` for all their Python processes, too.

    Without, the one that publishes does not notice before it has ended. Returns when all are gone.
    """
    family = [psutil.Process(process.pid)]
    family += family[0].children(recursive=True)
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            if workers or member.pid == process.pid or member.name() == "java":
                member.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, 30)
    assert not alive


@dataclass
class Drivers:
    """Drivers that carry on one another's work, from `source` into `store`."""

    store: StoreProcess
    source: Path
    folder: Path

    @property
    def places(self) -> list[str]:
        """What a driver takes: where to, where from, and its checkpoint."""
        return [str(path) for path in (self.store.path, self.source, self.folder / "checkpoint")]

    @contextlib.contextmanager
    def driver(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-P", str(DRIVER), *self.places]
        with (self.folder / "driver.log").open("wb") as log:
            # A killed driver leaves its folder of temporary files.
            environ = {**os.environ, "TMPDIR": str(self.folder)}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_driver(process, workers=True)

    def log(self) -> str:
        return (self.folder / "driver.log").read_text()[-3000:]

    def kill(self, times: int) -> None:
        """Kills so many, each in the middle of a micro-batch."""
        rng = random.Random(3)
        records = partial(self.store.control.load, "records")
        died = 0
        while died < times:
            part = records() + rng.randrange(1, BATCH // 2)
            with self.driver() as process:
                while records() < part:
                    assert process.poll() is None, self.log()
                    time.sleep(0.002)
                kill_driver(process, workers=died % 2 == 0)
            died += records() % BATCH != 0 or died % 2 == 1

    def finish(self, spark: SparkSession) -> None:
        """One that is left alone, here: it ends when everything is in the store."""
        copy(spark, *self.places)


def assert_all_came_once(store: StoreProcess, wanted: list[bytes]) -> None:
    exactly(dispatched(store), wanted)
    assert staged(store) == []
    keys = column_in(store.path, "message_id")
    assert len(set(keys)) == len(wanted)


@contextlib.contextmanager
def a_producer(store: StoreProcess, sent: list[bytes]) -> Iterator[None]:
    """Sends a hundred messages a second as long as it is wanted."""
    stop = threading.Event()

    def produce() -> None:
        with Producer(store.path) as producer:
            while not stop.wait(0.01):
                body = b"%d" % len(sent)
                producer.send(TOPIC, body, keys=f"k{len(sent)}")
                sent.append(body)

    load = threading.Thread(target=produce)
    load.start()
    try:
        yield
    finally:
        stop.set()
        load.join()


@pytest.mark.timeout(1800)
def test_from_store_to_store(spark: SparkSession, tmp_path: Path) -> None:
    """The source and the sink at once, while a producer goes on."""
    sent = [b"%d" % number for number in range((KILLS + 1) * BATCH)]
    with (
        StoreProcess(tmp_path / "from") as source,
        StoreProcess(tmp_path / "to", mapped_file_size_commit_log=16 << 20) as store,
    ):
        with Producer(source.path) as producer:
            for first in range(0, len(sent), 1000):
                producer.send_batch(TOPIC, sent[first : first + 1000])
        drivers = Drivers(store, source.path, tmp_path)
        with a_producer(source, sent):
            drivers.kill(KILLS)
        drivers.finish(spark)
        assert_all_came_once(store, sent)


@pytest.mark.parametrize("_long", [pytest.param(True, marks=LONG)])
@pytest.mark.timeout(1800)
def test_from_files(spark: SparkSession, tmp_path: Path, _long: bool) -> None:
    wanted = rows_of(tmp_path / "in", 30, BATCH)
    with StoreProcess(tmp_path / "store", mapped_file_size_commit_log=16 << 20) as store:
        drivers = Drivers(store, tmp_path / "in", tmp_path)
        drivers.kill(KILLS)
        drivers.finish(spark)
        assert_all_came_once(store, wanted)
