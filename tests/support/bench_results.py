"""Results of the load-test harness with known numbers, for tests of what is made from them."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any

import msgspec

from silomq.bench.harness.load._counts import Counts
from silomq.bench.harness.results.histograms import latency
from silomq.bench.harness.results.model import (
    FORMAT,
    Fault,
    Limit,
    Machine,
    Result,
    Run,
    Series,
    Server,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from silomq.bench.harness.results.model import Latency

MACHINE = Machine(
    cpu="A CPU", cores=2, memory=8 << 30, kernel="6.1", file_system="ext4", disk="a disk",
    python="3.11.2", clock="tsc", notes={"load before": "0.01"},
)  # fmt: skip
SERVER = Server(
    name="silomq", title="SiloMQ", version="0.1.0", acknowledged="the message is in the log",
    durability=2, settings={"flush": "async"}, clients={"silomq": "0.1.0"},
)  # fmt: skip


def recorded(values: Iterable[int]) -> Latency:
    """The latency of these microseconds."""
    counts = Counts()
    for value in values:
        counts.record(1000 * value)
    return latency(counts)


def series(rate: float, seconds: int, draw: random.Random) -> Series:
    """Columns of all names, with a second in which nothing was measured."""

    def around(value: float) -> list[float | None]:
        found: list[float | None] = [value * draw.uniform(0.8, 1.2) for _ in range(seconds)]
        found[seconds // 2] = None
        return found

    names = {
        "publish_rate": rate, "consume_rate": rate * 0.99, "publish_bytes": rate * 128,
        "backlog": 1000.0, "publish_p50": 90.0, "publish_p99": 400.0, "publish_p999": 2000.0,
        "publish_max": 9000.0, "end_to_end_p50": 150.0, "end_to_end_p99": 900.0,
        "disk_written": rate * 150, "page_cache": 4e9, "cpu.append": 0.8, "cpu.flush": 0.1,
        "memory.append": 3e7, "memory.flush": 2e7, "files.append": 40.0,
        "machine_pause": 800.0, "core_pause": 900.0,
    }  # fmt: skip
    columns = {name: around(value) for name, value in names.items()}
    columns["errors"] = [0.0] * seconds
    return Series([float(n) for n in range(seconds)], columns)


@functools.cache
def _latencies(number: int, given: tuple[int, ...]) -> dict[str, Latency]:
    draw = random.Random(number)
    some = given or [int(draw.lognormvariate(4.5, 0.8)) + 1 for _ in range(2000)]
    return {"publish": recorded(some), "end_to_end": recorded(2 * one for one in some)}


def run(
    number: int = 1, rate: float = 100_000.0, *, label: str = "", value: float = 0.0,
    seconds: int = 20, latencies: Sequence[int] = (), **changes: Any,
) -> Run:  # fmt: skip
    """A run at a rate. Without `latencies` they are drawn, the same ones for the same number."""
    draw = random.Random(number)
    made = Run(
        number=number, label=label, value=value, seconds=float(seconds), warm_up_s=2.0,
        sent=int(rate * seconds), sent_bytes=int(rate * seconds * 128), errors=0, first_error="",
        consumed=int(rate * seconds), publish_rate=rate, consume_rate=rate,
        latency=_latencies(number, tuple(latencies)),
        series=series(rate, seconds, draw), server_cpu_us=2.5, client_cpu_us=1.5,
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def result(runs: Sequence[Run], **changes: Any) -> Result:
    """A result of a workload named "example"."""
    made = Result(
        format=FORMAT, name="example", started="2026-01-02T03:04:05+00:00", silomq="0.1.0",
        commit="0123456789ab", workload={"producers": {"processes": 1, "size": 128}},
        server=SERVER, machine=MACHINE, runs=[*runs],
        limits=[
            Limit("write and fdatasync", "us", [100.0, 110.0, 105.0]),
            Limit("memcpy", "bytes/s", [2e9, 2.1e9]),
        ],
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def rich_result() -> Result:
    """Five runs with two faults each."""
    faults = [Fault(6.0, 7.5, "kill append"), Fault(12.0, 12.0, "kill flush")]
    runs = [run(n, 100_000.0 + 2000 * n, faults=faults) for n in range(1, 6)]
    return result(runs)


def sweep_result() -> Result:
    """Three runs of each of four sizes, each with a fault."""
    sizes = (16.0, 256.0, 4096.0, 65536.0)
    return result(
        [
            run(
                n,
                2e8 / (size + 1000) * (1 + n / 50),
                label="size",
                value=size,
                faults=[Fault(6, 7, "stop")],
            )
            for n in (1, 2, 3)
            for size in sizes
        ]
    )


def write(made: Result, path: Path) -> Path:
    """Writes a result as `silo bench run` does."""
    path.write_bytes(msgspec.json.encode(made))
    return path
