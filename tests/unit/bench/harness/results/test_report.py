"""The page of a result: every valid result has one, and it says what must be said."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.bench_results import (
    MACHINE,
    SERVER,
    recorded,
    result,
    rich_result,
    run,
    sweep_result,
)

from silomq.bench.harness.results.file import GREATEST, check
from silomq.bench.harness.results.model import (
    FORMAT,
    Fault,
    Latency,
    Limit,
    Result,
    Run,
    Series,
)
from silomq.bench.harness.results.report import report

#: The page may not show a number that is none, so no text says "nan" either.
TEXT = st.text(max_size=20).filter(lambda text: "nan" not in text.lower()) | st.sampled_from(
    ["<script>alert(1)</script>", "\x1b[2J", "</style>"]
)
NUMBER = st.floats(-GREATEST, GREATEST, allow_nan=False)
COUNT = st.integers(0, 10**15)
LATENCY = st.lists(st.integers(1, 10**9), max_size=4).map(recorded)
COLUMNS = ("publish_rate", "publish_p50", "errors", "backlog", "cpu.append", "unknown")


class Balanced(HTMLParser):
    """Fails if a tag is closed that is not open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(made: Result) -> str:
    """The text of the page, which is well-formed and has no script."""
    data = report(made)
    assert len(data) < 1_000_000
    text = data.decode()
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert not parser.names & {"script", "iframe", "img", "link", "object"}
    assert "nan" not in re.sub(r"<[^>]*>", "", text).lower().split()
    assert not re.search(r'(?:points|d|x|y|cx|cy)="[^"]*(?:nan|inf)', text)
    return text


@st.composite
def series(draw: st.DrawFn) -> Series:
    times = sorted(draw(st.lists(st.floats(0, 1e6), max_size=4)))
    values = st.lists(st.none() | NUMBER, min_size=len(times), max_size=len(times))
    return Series(times, draw(st.dictionaries(st.sampled_from(COLUMNS) | TEXT, values, max_size=4)))


RUNS = st.builds(
    Run, number=COUNT, label=TEXT, value=NUMBER, seconds=NUMBER, warm_up_s=NUMBER, sent=COUNT,
    sent_bytes=COUNT, consumed=COUNT, errors=COUNT, first_error=TEXT, publish_rate=NUMBER,
    consume_rate=NUMBER, series=series(), server_cpu_us=NUMBER, client_cpu_us=NUMBER,
    latency=st.dictionaries(st.sampled_from(["publish", "end_to_end"]) | TEXT, LATENCY, max_size=2),
    faults=st.lists(st.builds(Fault, at_s=NUMBER, until_s=NUMBER, what=TEXT), max_size=2),
    lost=st.none() | COUNT, doubled=st.none() | COUNT,
    drift=st.dictionaries(TEXT, NUMBER, max_size=2),
)  # fmt: skip
RESULTS = st.builds(
    Result, format=st.just(FORMAT), name=TEXT, started=TEXT, silomq=TEXT, commit=TEXT,
    workload=st.dictionaries(TEXT, TEXT | NUMBER | st.dictionaries(TEXT, COUNT), max_size=2),
    server=st.builds(
        type(SERVER), name=TEXT, title=TEXT, version=TEXT, acknowledged=TEXT,
        durability=st.integers(0, 3), settings=st.dictionaries(TEXT, TEXT, max_size=2),
    ),
    machine=st.just(MACHINE),
    limits=st.lists(
        st.builds(Limit, TEXT, st.sampled_from(["us", "bytes/s"]) | TEXT, st.lists(NUMBER)),
        max_size=2,
    ),
    runs=st.lists(RUNS, max_size=3), interrupted=st.booleans(),
)  # fmt: skip


@given(RESULTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_valid_result_has_a_page(made: Result) -> None:
    check(made)
    checked(made)


def test_the_page_shows_medians_and_ranges() -> None:
    text = checked(rich_result())
    assert "<td>published</td>" in text
    assert "106 k msg/s<small>102 k msg/s to 110 k msg/s</small>" in text
    assert "An acknowledgement means: the message is in the log" in text
    assert "survives a kill of the server, but is lost in a power cut" in text
    assert "10 faults" in text
    assert "Run 3, 20 s" in text
    titles = re.findall(r'aria-label="([^"]*)"', text)
    assert len(titles) == len(set(titles)) == 12


def test_limits_have_ratios() -> None:
    text = checked(result([run(latencies=[210] * 10)]))
    assert "publish latency, p50 2×" in text  # 210 us beside 105 us


def test_steps_of_a_sweep_have_plots() -> None:
    text = checked(sweep_result())
    assert text.count("<details") == 4 + 1  # and that of the faults
    assert text.count("<details open") == 2
    assert "size 4,096" in text
    assert 'aria-label="Bytes published"' in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"interrupted": True}, "ended before its time"),
        ({"runs": [run(errors=3, first_error="time is up")]}, "3 errors. The first: time is up"),
        ({"runs": [run(lost=2, doubled=1)]}, "3 messages were lost or doubled"),
        ({"runs": []}, "No run was measured"),
        ({"limits": []}, "None were measured"),
        ({"runs": [run(seconds=70)]}, "Drift"),
    ],
)
def test_what_went_wrong_is_said(changes: dict[str, Any], said: str) -> None:
    assert said in checked(msgspec.structs.replace(rich_result(), **changes))


def test_a_long_run_of_many_processes_stays_small() -> None:
    seconds = 300
    columns: dict[str, list[float | None]] = {
        f"{kind}.process-{n}": [float(m % 97) for m in range(seconds)]
        for kind in ("cpu", "memory", "files")
        for n in range(40)
    }
    many = Series([float(n) for n in range(seconds)], columns)
    made = [run(n, label="size", value=float(n), series=many) for n in range(1, 15)]
    text = checked(result(made))
    assert "and 24 more" in text


def test_an_empty_latency_has_no_plot() -> None:
    none: dict[str, Latency] = {"publish": recorded([])}
    assert "by percentile" not in re.sub("<h2.*?</h2>", "", checked(result([run(latency=none)])))
