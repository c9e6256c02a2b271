"""The file of results: what `silo bench run` writes, and what `report` and `compare` read.

Times are seconds since the start of a run, latencies microseconds, sizes bytes. CPU is parts of one
core: 1.0 is one core in full.
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = 1


class Machine(msgspec.Struct, frozen=True):
    """Where it was measured. No host name: results are published."""

    cpu: str
    cores: int
    memory: int
    kernel: str
    file_system: str
    disk: str
    python: str
    clock: str
    #: Everything that may disturb: load before the start, governor, cgroup limits.
    notes: dict[str, str] = {}


class Limit(msgspec.Struct, frozen=True):
    """A limit of the machine that was measured in the same run: its samples in `unit`."""

    name: str
    unit: str
    samples: list[float]


class Latency(msgspec.Struct, frozen=True):
    """One histogram: HdrHistogram's compressed base64 form (V2) in us, and figures of it for those
    who read without the library.
    """

    histogram: str
    count: int
    mean: float
    #: By percentile as text: "50", "90", "99", "99.9", "99.99", "100".
    percentiles: dict[str, float]


class Series(msgspec.Struct, frozen=True):
    """Columns of equal length, one row a second: `time` first. None is "not measured then".

    Names: publish_rate, consume_rate (messages/s), publish_bytes (bytes/s), errors, backlog
    (messages), disk_written (bytes/s), page_cache (bytes). Latencies in us, of the kinds
    publish, end_to_end and delay: KIND_p50, p75, p95, p99, p999, p9999, max, mean. For each
    process: cpu.NAME (parts of a core), memory.NAME (bytes of its own), files.NAME (open files). Of
    a server that tells: not_flushed, not_dispatched (bytes of its log).
    """

    time: list[float]
    columns: dict[str, list[float | None]]


class Fault(msgspec.Struct, frozen=True):
    """What was done to the server: at `at_s`, until `until_s`."""

    at_s: float
    until_s: float
    what: str


class Run(msgspec.Struct, frozen=True):
    """One run of one step of a workload. `label` and `value` name the step of a sweep ("size",
    128.0); "" and 0 without one.
    """

    number: int
    label: str
    value: float
    #: The measured part, without the warm-up.
    seconds: float
    warm_up_s: float
    sent: int
    sent_bytes: int
    consumed: int
    errors: int
    first_error: str
    publish_rate: float
    consume_rate: float
    #: "publish", "durable", "delay", "end_to_end"; those that were measured.
    latency: dict[str, Latency]
    series: Series
    faults: list[Fault] = []
    #: CPU time of all the server's processes a message, us; of the workers' beside it.
    server_cpu_us: float = 0.0
    client_cpu_us: float = 0.0
    #: Lost and doubled messages, if the workload counted them.
    lost: int | None = None
    doubled: int | None = None
    #: Slopes per hour of rate, latency, memory, open files, shared memory (soak).
    drift: dict[str, float] = {}
    #: Messages a second that were due (open loop); 0 is as fast as it goes.
    wanted_rate: float = 0.0
    #: Messages that were dispatched a second, from the begin of the measured part until all were.
    #: Those that the warm-up left are among them. 0 if the server does not tell, or if consumers
    #: read meanwhile.
    dispatch_rate: float = 0.0
    #: Cold reads: the share of the server's files that was in the page cache all the same.
    cached: float | None = None


class Server(msgspec.Struct, frozen=True):
    """What was measured. `durability` is the number of `targets.Durability`."""

    name: str
    title: str
    version: str
    acknowledged: str
    durability: int
    settings: dict[str, str] = {}
    clients: dict[str, str] = {}


class Result(msgspec.Struct, frozen=True):
    """One file. `workload` is the whole workload as plain values, so that it can be run again."""

    format: int
    name: str
    started: str  # ISO 8601, UTC
    silomq: str  # version
    commit: str
    workload: dict[str, Any]
    server: Server
    machine: Machine
    limits: list[Limit]
    runs: list[Run]
    #: True if it was ended by Ctrl-C before its time.
    interrupted: bool = False


def read(data: bytes) -> Result:
    """Decodes a file of results. Raises msgspec.ValidationError or msgspec.DecodeError with what is
    wrong and where.
    """
    found = msgspec.json.decode(data, type=Result)
    if found.format != FORMAT:
        raise msgspec.ValidationError(f"format {found.format}: this version reads format {FORMAT}")
    return found
