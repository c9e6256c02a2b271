"""Results in the forms of OpenMessaging Benchmark, HdrHistogram, and RocketMQ's own benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .figures import step_name, steps
from .histograms import added_up, interval_log, percentile_table
from .report import median_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Latency, Result, Run

_PERCENTILES: Final = (
    ("50pct", 50.0), ("75pct", 75.0), ("95pct", 95.0), ("99pct", 99.0), ("999pct", 99.9),
    ("9999pct", 99.99), ("Max", 100.0),
)  # fmt: skip
#: Its key, our kind, and the divisor from us: its latencies are ms, but the delay is us.
_LATENCIES: Final = (
    ("publishLatency", "publish", 1e3),
    ("publishDelayLatency", "delay", 1.0),
    ("endToEndLatency", "end_to_end", 1e3),
)
#: The columns of the series that have a percentile by second.
_BY_SECOND: Final = {
    "50pct": "p50", "75pct": "p75", "95pct": "p95", "99pct": "p99", "999pct": "p999",
    "9999pct": "p9999", "Max": "max",
}  # fmt: skip
_QUANTILES: Final = (50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0)


def openmessaging(result: Result, run: Run) -> dict[str, Any]:
    """A run with the keys of OpenMessaging Benchmark's TestResult, for scripts that draw charts of
    them. A second in which nothing was measured has null.
    """
    work = result.workload
    topics, producers, consumers = (work.get(name, {}) for name in
                                    ("topics", "producers", "consumers"))  # fmt: skip
    columns = run.series.columns
    unknown: list[float | None] = [None] * len(run.series.time)
    found: dict[str, Any] = {
        "workload": result.name,
        "driver": result.server.title,
        "messageSize": round(run.sent_bytes / run.sent) if run.sent else 0,
        "topics": _number(topics, "count", 1),
        "partitions": _number(topics, "queues", 1),
        "producersPerTopic": _number(producers, "processes", 1),
        "consumersPerTopic": _number(consumers, "groups", 0) * _number(consumers, "processes", 1),
        "publishRate": columns.get("publish_rate", unknown),
        "publishErrorRate": columns.get("errors", unknown),
        "consumeRate": columns.get("consume_rate", unknown),
        "backlog": columns.get("backlog", unknown),
    }
    for key, kind, divisor in _LATENCIES:
        for name, by_second in (("Avg", "mean"), *_BY_SECOND.items()):
            column = columns.get(f"{kind}_{by_second}", unknown)
            found[key + name] = [None if one is None else one / divisor for one in column]
        found |= _aggregated(f"aggregated{key[0].upper()}{key[1:]}", run.latency.get(kind), divisor)
    return found


def _number(table: Any, name: str, otherwise: int) -> int:
    value = table.get(name, otherwise) if isinstance(table, dict) else otherwise
    return value if isinstance(value, int) else otherwise


def _aggregated(key: str, latency: Latency | None, divisor: float) -> dict[str, Any]:
    if latency is None:
        return {
            f"{key}Avg": None,
            **{key + n: None for n, _ in _PERCENTILES},
            f"{key}Quantiles": {},
        }
    whole = added_up([latency])

    def at(percentile: float) -> float:
        return float(whole.get_value_at_percentile(percentile)) / divisor

    return {
        f"{key}Avg": latency.mean / divisor,
        **{key + name: at(percentile) for name, percentile in _PERCENTILES},
        f"{key}Quantiles": {f"{one:g}": at(one) for one in _QUANTILES},
    }


def openmessaging_files(result: Result) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each step a name and its median run. The name is "" without a sweep."""
    for step, runs in steps(result).items():
        yield file_name(step_name(step)), openmessaging(result, median_run(runs))


def file_name(text: str) -> str:
    """Text as a part of a file's name."""
    return "".join(one if one.isascii() and one.isalnum() else "-" for one in text)[:80]


def rocketmq_lines(result: Result) -> Iterator[str]:
    """For each run the last line of RocketMQ's own producer benchmark."""
    for run in result.runs:
        latency = run.latency.get("publish")
        most, mean = (latency.percentiles.get("100", 0.0), latency.mean) if latency else (0.0, 0.0)
        yield (
            f"[Complete] Send Total: {run.sent} | Send TPS: {run.publish_rate:.0f} | "
            f"Max RT(ms): {most / 1e3:.0f} | Average RT(ms): {mean / 1e3:7.3f} | "
            f"Send Failed: {run.errors} | Response Failed: 0"
        )


def histogram_files(result: Result) -> Iterator[tuple[str, bytes]]:
    """Names and contents: for each step and kind of latency a table of percentiles over all runs
    (.hgrm), and a log with one histogram for each run (.hlog).
    """
    for step, runs in steps(result).items():
        name = file_name(step_name(step)) or "all"
        for kind in dict.fromkeys(kind for run in runs for kind in run.latency):
            have = [run for run in runs if kind in run.latency]
            where = f"{name}.{file_name(kind)}"
            yield f"{where}.hgrm", percentile_table(added_up(run.latency[kind] for run in have))
            ends = [sum(run.seconds for run in have[:n]) for n in range(len(have))]
            yield (
                f"{where}.hlog",
                interval_log(
                    (start, run.seconds, run.latency[kind].histogram)
                    for start, run in zip(ends, have, strict=True)
                ),
            )
