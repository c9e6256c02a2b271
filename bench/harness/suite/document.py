"""Makes docs/benchmarks.md and its plots from the results that the repository keeps.

    python -m silomq.bench.harness.suite.document bench/results docs

`make bench-docs` runs this. Its tables have no number that is not in a file of results. The text
about causes has some that were measured while a cause was looked for.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..results.amounts import amount
from ..results.comparison import names, plot_of
from ..results.drift import trends
from ..results.exports import file_name
from ..results.figures import BY_KEY, DURABILITY, Step, step_name, steps, values
from ..results.file import BadResult, load, write_whole
from ..results.report import range_of
from ..results.spread import ENOUGH
from .suite import read
from .verdicts import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as MappingOf

    from ..results.model import Result

PAGE: Final = "benchmarks.md"
PLOTS: Final = "benchmarks"
#: The columns of a table.
_COLUMNS: Final = {
    "publish_rate": "published",
    "dispatch_rate": "dispatched",
    "consume_rate": "consumed",
    "publish_p50": "publish p50",
    "publish_p99": "p99",
    "publish_p99.9": "p99.9",
    "end_to_end_p50": "end to end p50",
    "end_to_end_p99": "p99",
    "server_cpu": "server's CPU a message",
}
_TEXT: Final = f"""\
# Benchmarks

`make bench-docs` makes this page from the files in [bench/results](../bench/results). Change
those, not this page.

## How it is measured

- `silo bench run WORKLOAD` starts a server in a folder of its own, and processes that produce and
  consume. Each run begins with a new server, and its warm-up does not count.
- With a rate, a message is due at a fixed time, and its latency counts from that time (open
  loop). A stall therefore shows in every message that it delays. Without a rate, each process
  sends as fast as its window allows (closed loop).
- End-to-end latency is from the time at which a message was due to the time at which a consumer
  had it. Both are read from one clock, because all processes are on one machine.
- Latencies are kept in HdrHistograms of 1 us to 1 h with three digits. Percentiles of several
  runs are those of all their messages added up; the tables have medians of the runs' own
  percentiles.
- Tables show the median of the runs, and in brackets the least and the greatest. Results of peers
  come from interleaved runs with the same messages on the same disk (`silo bench suite`).
- The dispatch rate counts the messages that were dispatched from the begin of the measured part
  until all were. What the warm-up left is among them.
- Before each run free memory is filled with the page cache of another file, as on a server that
  has run for long (`full_memory`). Pages then come from older files. On a virtual machine whose
  free memory goes back to its host, a first use of pages can cost more than all else. Results
  without it say so.
- The limits of the machine (copying, `fdatasync`, a futex, loopback, new pages of a file, writing,
  reading) are measured in the same session. `silo bench report` shows figures as ratios to them.
- A virtual machine stands still while its host runs others, and what was due meanwhile is late.
  A core can stand still alone, and with it the process that it ran. Each second of a result has
  the longest pause of all cores, and the longest of one core, if the harness may give itself the
  priority to see them (as root).

## What the numbers do not say

- Absolute rates are those of one machine, which each result names. Not all parts are of the same
  one. Ratios of results from the same machine and day carry over better.
- With fewer than {ENOUGH} runs the noise is unknown, and so is the weight of a small difference.
- A row with * promises less when it acknowledges: its latency is not comparable with that of the
  others.
- A JVM compiles for minutes. In runs of 6 seconds Kafka, and less so RocketMQ, are slower than in
  a server that has run for long.
- Clients in Python take a share of the CPU themselves. A peer's rate may be that of its client.
- No figure here is of a network between machines, or of replicas.
- Short runs see no ageing: growth of files, fragmentation, or the wear of a disk. The workload
  `soak` looks for drift.
"""
_BARS: Final = """
## Bars

`silo bench suite bars` measures these, `--show` prints them. A bar that is missed is one that is
still to be reached.
"""
_CAUSES: Final = """
What is known of the causes of those that are missed, on two cores:

- **Rates.** Both cores are busy. The bound is the CPU time that producer and server need for a
  message. RocketMQ's store runs in the producer's own thread and hands nothing over. With 4
  producers and 128 B its version 4 needs 1.9 us of CPU time for a message, and SiloMQ 0.6 us, half
  of it in the producer's call from Python. Eight times its rate would leave 0.3 us for both. With
  1 KiB, fifteen times its rate are 6 GB/s, each byte copied twice and checked. One core of that
  machine copies 9 GB/s. SiloMQ sends these without waiting for answers. An earlier measurement
  waited for the answer to each batch: it had 1.5 times the rate of RocketMQ's store.
- **The longest stall at half load.** Four producers, two groups, append and reput share two cores.
  A producer that paces itself sends what was due meanwhile in one go, and a queue forms whenever
  the cores are slower. By `perf sched` no process waited longer than 6 ms for a core. But for up
  to 0.2 s at a time the kernel left one producer alone on a core, and append with the three others
  on the other core, and those three fell behind. To sleep instead is worse where a halted core
  wakes slowly: in that way such a rate was hardly reached.
- **Send to listen and iterate.** Producer, append, reput and consumer wake each other: three
  hand-overs, and there and back are two. Between them each process does its work with cold caches.
  By `perf`, reput works about 20 us for a message, and the listener's process 25, its callback
  among it. When the interpreter did that it was 43 and 60 us, and the p50 of `listen` was 87 us.
  At this rate the cores sleep in between, and on some virtual machines the host must wake them.
  There a hand-over takes longer than in a run without a pause, so both are measured. Beside a
  hand-over with pauses that takes 47 us or more, the p50 met its bar. The p99 is that of four busy
  processes on two cores, beside the harness. With longer spins
  (`append_spin_us`, `reput_spin_us`) none of the store's processes sleeps. On two cores that is in
  the way of the others.
- **SYNC_FLUSH, 64 under way.** On a fast disk the sync takes less than half of a round of 64
  messages. For the rest of it answers and new messages go through four processes on two cores.
- **One at a time, disk.** `fdatasync` is most of such a send, and the same for all.
- **10,000 topics.** For each message producer, append and reput touch another topic, and reput
  writes to another page of another file. The first message of each of the 40,000 queues makes a
  file, in a quarter of a millisecond, and reput falls behind by gigabytes. Then it dispatches more
  than append appends, and takes that time from append.
"""
#: A machine that pauses for so long in most seconds says more of itself than of a latency.
_NOTABLE_US: Final = 5000.0
_NOTHING: Final = "–"
#: What the README shows: part, figure, and the peer beside it.
_SHORT: Final = (
    ("one-producer-128", "publish_rate", "rocketmq-store-5", "1 producer, 128 bytes"),
    ("four-producers-1k", "publish_rate", "rocketmq-store-5", "4 producers, 1 KiB"),
    ("acknowledged-full-load", "publish_p99.9", "rocketmq-store-5", "4 producers: p99.9 of a send"),
    ("window-memory", "publish_rate", "redis", "Python client, 1,000 under way"),
    ("one-at-a-time-memory", "publish_p50", "redis", "Python client: median of a send"),
)
_SHORT_BEGIN: Final = "<!-- make bench-docs writes this table -->\n"
_SHORT_END: Final = "<!-- its end -->\n"
_RESULTS: Final = "\n## Results\n"
_NONE: Final = "\nNo results are kept in the repository yet.\n"


def documents(results: Sequence[tuple[str, Result]]) -> dict[str, str]:
    """The page and its plots: paths below docs, and contents. `results` have their files' names."""
    found = {}
    parts = [_TEXT]
    by_title: dict[str, list[tuple[str, Result]]] = {}
    for file, one in sorted(results, key=lambda pair: (_title(*pair), pair[0])):
        by_title.setdefault(_title(file, one), []).append((file, one))
    parts += [f"{line}\n" for line in _bars(dict(results))]
    parts.append(_RESULTS)
    drifting = {bar.part for bar in read("bars").bars if bar.figure == "drifts"}
    for title, some in by_title.items():
        files, measured = [file for file, _ in some], [one for _, one in some]
        shown = names(measured, files)
        parts.append(f"\n### {_plain(title)}\n\n")
        if title != measured[0].name:
            parts.append(f"A part of the suite `bars`, of the workload `{measured[0].name}`.\n\n")
        parts += [f"{line}\n" for line in _table(measured, shown)]
        plot = plot_of(measured, shown)
        if plot:
            place = f"{PLOTS}/{file_name(title)}.svg"
            found[place] = plot.standalone() + "\n"
            parts.append(f"\n![{_plain(plot.title)}, {_plain(title)}]({place})\n")
        if title in drifting:
            parts += ["\n", *(f"{line}\n" for line in _drift(measured))]
        parts += ["\n", *(f"{line}\n" for line in _origins(some, shown))]
    if not results:
        parts.append(_NONE)
    return {PAGE: "".join(parts), **found}


def _title(file: str, result: Result) -> str:
    """The heading of a result: its part of the suite (`bench/harness/suite/kept.py` names the
    file), or else its workload.
    """
    part, _, target = file.removesuffix(".json").partition(".")
    return part if target and any(one.name == part for one in read("bars").parts) else result.name


def _bars(results: MappingOf[str, Result]) -> Iterator[str]:
    """The bars of the suite that are measured."""
    found = [
        line
        for line in lines(read("bars"), lambda part, target: results.get(f"{part}.{target}.json"))
        if line.ratio != _NOTHING
    ]
    if not found:
        return
    yield _BARS
    yield "| | SiloMQ | beside | its figure | ratio | bar | |"
    yield "|---|---:|---|---:|---:|---:|---|"
    for line in found:
        cells = line[: len(line) - 1]
        yield "| " + " | ".join(_plain(cell) for cell in cells) + " |"
    if not all(line.is_met for line in found):
        yield _CAUSES.rstrip()


def short_table(results: MappingOf[str, Result]) -> str:
    """The README's table: a line for each comparison that is measured. Medians of the runs."""
    found = ["| | SiloMQ | beside | its figure |\n|---|---:|---|---:|\n"]
    for part, figure, peer, what in _SHORT:
        pair = [results.get(f"{part}.{name}.json") for name in ("silomq", peer)]
        mine, its = (_median(one, figure) for one in pair)
        if pair[1] is not None and mine and its:
            title, comma, how = pair[1].server.title.partition(",")
            peer_name = f"{title} {pair[1].server.version}".strip() + comma + how
            found.append(f"| {what} | {mine} | {_plain(peer_name)} | {its} |\n")
    return "".join(found) if len(found) > 1 else ""


def _median(result: Result | None, figure: str) -> str:
    runs = [] if result is None else [run for some in steps(result).values() for run in some]
    return range_of(BY_KEY[figure], runs).partition("\n")[0] if runs else ""


def with_short_table(readme: str, table: str) -> str:
    """The README with this table in the place of its own."""
    before, begin, rest = readme.partition(_SHORT_BEGIN)
    _, end, after = rest.partition(_SHORT_END)
    return before + begin + table + end + after if end else readme


def _plain(text: str) -> str:
    """Text of which Markdown makes nothing else."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|#!" else c for c in " ".join(text.split()))


def _table(results: Sequence[Result], shown: Sequence[str]) -> Iterator[str]:
    by_step = [steps(one) for one in results]
    every: dict[Step, None] = dict.fromkeys(step for one in by_step for step in one)
    keys = [
        key
        for key in _COLUMNS
        if any(values(BY_KEY[key], runs) for one in by_step for runs in one.values())
    ]
    yield "| " + " | ".join(("", *(_COLUMNS[key] for key in keys), "runs")) + " |"
    yield "|---" + "|---:" * (len(keys) + 1) + "|"
    for step in every:
        for name, one in zip(shown, by_step, strict=True):
            runs = one.get(step, [])
            if runs:
                title = f"{step_name(step)}: {name}" if step[0] else name
                cells = [_cell(range_of(BY_KEY[key], runs)) for key in keys]
                yield "| " + " | ".join((_plain(title), *cells, str(len(runs)))) + " |"


def _drift(results: Sequence[Result]) -> Iterator[str]:
    """The slopes of each run, with their meaning."""
    yield "| over the run | mean | slope | from begin to end | |"
    yield "|---|---:|---:|---:|---|"
    for one in results:
        for run in one.runs:
            for trend in trends(run):
                yield "| " + " | ".join(map(_plain, (trend.title, *trend.said()))) + " |"


def _cell(text: str) -> str:
    median, _, spread = text.partition("\n")
    return f"{median} ({spread})" if spread else median


def _origins(some: Sequence[tuple[str, Result]], shown: Sequence[str]) -> Iterator[str]:
    for (file, one), name in zip(some, shown, strict=True):
        machine = one.machine
        yield (
            f"- {_plain(name)}: {_plain(one.server.acknowledged.rstrip('.'))}. An acknowledged "
            f"message {DURABILITY[one.server.durability]}."
        )
        yield (
            f"  [{_plain(file)}](../bench/results/{file}), {one.started[:10]}, "
            f"{_plain(machine.cpu)}, {machine.cores} cores, {_plain(machine.file_system)}, "
            f"Linux {_plain(machine.kernel)}."
        )
        if not one.workload.get("full_memory"):
            yield "  Free memory was not filled."
        if one.interrupted:
            yield "  It was interrupted before its time."
        paused = _paused_us(one)
        if paused >= _NOTABLE_US:
            yield f"  In half of all seconds a core stood still for {amount(paused, 'us')} or more."


def _paused_us(result: Result) -> float:
    """The median over all seconds of the longest time in which one core stood still."""
    found = [
        value
        for run in result.runs
        for value in run.series.columns.get("core_pause", ())[int(run.warm_up_s) :]
        if value is not None
    ]
    return statistics.median(found) if found else 0.0


def results_in(folder: Path) -> list[tuple[str, Result]]:
    """All results of a folder and their files' names. Raises BadResult."""
    return [(path.name, load(path)) for path in sorted(folder.glob("*.json"))]


def main(arguments: Sequence[str]) -> int:
    """Writes the page and its plots, and removes plots without a workload."""
    source, target = map(Path, arguments)
    try:
        measured = results_in(source)
        found = documents(measured)
    except BadResult as error:
        print(error, file=sys.stderr)
        return 1
    if len(found) > 1:
        (target / PLOTS).mkdir(exist_ok=True)
    for old in (target / PLOTS).glob("*.svg"):
        if f"{PLOTS}/{old.name}" not in found:
            old.unlink()
    readme = target.parent / "README.md"
    if readme.exists():
        before = readme.read_text(encoding="utf-8")
        found["../README.md"] = with_short_table(before, short_table(dict(measured)))
    for name, text in found.items():
        write_whole(target / name, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
