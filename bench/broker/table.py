"""The rows: which figure is held against what."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from ..rows import Row
from .native import CONNECTIONS, SIZES
from .round import THREADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The figures of all rounds, by name.
Samples = dict[str, list[float]]
_PEER = "RocketMQ 5.3.3"


class Goal(NamedTuple):
    """What ours must reach: `bar` times what RocketMQ has, or `bar` itself if it is no ratio."""

    bar: float
    at_least: bool = False
    is_ratio: bool = True

    def line(self, theirs: Sequence[float]) -> float:
        """The value that ours must reach, in the figure's unit; 0 if there is nothing beside."""
        if not self.is_ratio:
            return self.bar
        return self.bar * statistics.median(theirs) if theirs else 0.0


class Line(NamedTuple):
    """A row of the table: the figure `key`, beside that of RocketMQ unless it is `alone`."""

    name: str
    key: str
    unit: str
    goal: Goal | None = None
    alone: bool = False


def _sending(name: str, key: str, rate: float, cpu: float, p50: float | None = None) -> list[Line]:
    latency = None if p50 is None else Goal(p50)
    return [
        Line(name, f"{key}.rate", "msg/s", Goal(rate, at_least=True)),
        Line("  p50", f"{key}.send_p50_us", "us", latency),
        Line("  p99", f"{key}.send_p99_us", "us"),
        Line("  CPU per message", f"{key}.cpu_us", "us", Goal(cpu)),
    ]


def _native(size: int, connections: int) -> Iterator[Line]:
    for name, word, least in (("pipelined sends", "sends", 250e3), ("pulls of 32", "pulls", 500e3)):
        key = f"{word}{connections}x{size}"
        title = f"{name}, {connections} connection{'s' * (connections > 1)}, {size} B"
        yield Line(title, f"{key}.rate", "msg/s", Goal(least, at_least=True, is_ratio=False))
        yield Line("  CPU per message", f"{key}.cpu_us", "us")
        yield Line("  the generator's own CPU", f"{key}.own_us", "us")


def _lines() -> Iterator[Line]:
    for threads, cpu in zip(THREADS, (1 / 5, 1 / 4, 1 / 4), strict=True):
        name = f"sync send, {threads} thread{'s' * (threads > 1)}, 128 B"
        yield from _sending(name, f"sync{threads}", 1.3, cpu, 0.7 if threads == 1 else None)
    yield Line("async send, window 1,000, 128 B", "async.rate", "msg/s", Goal(1.2, at_least=True))
    yield Line("  CPU per message", "async.cpu_us", "us", Goal(1 / 4))
    for size in SIZES:
        yield from _sending(f"batches of 32, 8 threads, {size} B", f"batch{size}", 1.0, 1 / 2)
    yield Line("push consumer drains, 1 KB", "drain.rate", "msg/s", Goal(1.0, at_least=True))
    yield Line("  CPU per message", "drain.cpu_us", "us", Goal(1 / 2))
    yield Line("1,000 msg/s, what came through", "paced.rate", "msg/s")
    for name, key in (("send", "send"), ("send to listener", "listener")):
        yield Line(f"1,000 msg/s, {name}, p50", f"paced.{key}_p50_us", "us", Goal(0.7))
        yield Line(f"1,000 msg/s, {name}, p99", f"paced.{key}_p99_us", "us", Goal(0.7))
    yield Line("  CPU per message", "paced.cpu_us", "us", Goal(1 / 5))
    yield Line("start, the port answers", "start.answered_s", "s", Goal(1, is_ratio=False))
    yield Line("start, first send of a new JVM", "start.first_s", "s")
    yield Line("idle, clients connected", "idle.percent", "% of a core", Goal(1, is_ratio=False))
    yield Line("memory, empty", "memory.empty_mib", "MiB", Goal(1 / 5))
    yield Line("memory, after load", "memory.loaded_mib", "MiB", Goal(1 / 5))
    yield Line("idle connections", "connections.count", "")
    each = Goal(20, is_ratio=False)
    yield Line("  memory of each", "connections.each_kib", "KiB", each, alone=True)
    yield Line("  a send beside them, p50", "connections.p50_us", "us")
    for size in SIZES:
        for connections in CONNECTIONS:
            yield from _native(size, connections)
    yield Line("lone sync send, no JVM, p50", "lone.p50_us", "us", Goal(60, is_ratio=False))
    yield Line("lone sync send, no JVM, p99", "lone.p99_us", "us", Goal(150, is_ratio=False))


LINES = tuple(_lines())


def rows(samples: Mapping[str, Samples]) -> list[Row]:
    """A row for each figure that was taken. `samples` has those of each kind of server."""
    theirs, ours = samples["rocketmq"], samples["silomq"]
    found = []
    for line in LINES:
        if line.key not in ours:
            continue
        beside = [] if line.alone else theirs.get(line.key, [])
        goal = line.goal
        found.append(
            Row(
                line.name,
                line.unit,
                ours[line.key],
                _PEER if beside else "",
                beside,
                0.0 if goal is None else goal.line(beside),
                higher_is_better=goal is not None and goal.at_least,
                bar_text=f"{goal.bar:.3g} x theirs" if goal and goal.is_ratio else "",
            )
        )
    return found
