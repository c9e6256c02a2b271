"""The demo's end: Spark and the CSV say the same, and what differs is noticed."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from support.harness import PYTHON, memory_of

pytest.importorskip("pyspark")

from rich.console import Console

from silomq.cli.demo.flights import FLIGHTS, airlines, data_folder
from silomq.cli.demo.processes import DemoFailed
from silomq.cli.demo.spark import Delays, compare, from_csv
from silomq.pipeline.spark.session import QUICK

if TYPE_CHECKING:
    from pathlib import Path

DEMO = (*PYTHON, "-m", "silomq.cli.demo")


def test_the_demo_ends_with_spark(tmp_path: Path) -> None:
    # Into a folder that has the flights of another run already: those do not count.
    command = [*DEMO, "--flights", "6000"]
    temporary, work = tmp_path / "tmp", tmp_path / "work"
    temporary.mkdir()
    work.mkdir()
    subprocess.run([*command, "--no-spark"], cwd=work, capture_output=True, check=True)
    done = subprocess.run(
        command,
        cwd=work,
        env={**os.environ, "TMPDIR": str(temporary), "SPARK_SUBMIT_OPTS": QUICK},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "differ" not in done.stdout
    assert len(re.findall(r"equal *│", done.stdout)) >= 16 + 14 + 1
    assert re.search(r"Jan .* 6,000 .* 6,000 ", done.stdout)
    assert "its figures are those of the CSV" in done.stdout
    assert "Exception" not in done.stderr
    page = (work / "demo-store" / "stats.html").read_text()
    assert "<svg" in page
    assert "flights_UA" in page
    assert memory_of(work / "demo-store") == []
    assert list(temporary.iterdir()) == []
    assert [path.name for path in work.iterdir()] == ["demo-store"]


def test_the_figures_of_the_whole_year() -> None:
    figures = from_csv(data_folder(), FLIGHTS)
    carriers = [value for group, value in figures if group == "carrier"]
    assert sorted(carriers) == sorted(airlines(data_folder()))
    assert len(figures) == 16 + 12
    for group in ("carrier", "month"):
        assert sum(d.flights for (g, _), d in figures.items() if g == group) == FLIGHTS
    # Known of these data: JetBlue's 54,635 flights left 13.02 minutes late on average.
    assert figures["carrier", "B6"].flights == 54_635
    assert figures["carrier", "B6"].mean == pytest.approx(13.022522)


def test_every_difference_fails() -> None:
    figures = from_csv(data_folder(), 3000)
    quiet = Console(quiet=True)
    compare(quiet, figures, figures)
    key = ("carrier", "UA")
    one = figures[key]
    assert one.mean is not None
    for other in (
        replace(one, flights=one.flights + 1),
        replace(one, mean=one.mean + 1e-6),
        replace(one, p95=None),
        Delays(0, None, None),
    ):
        with pytest.raises(DemoFailed, match=r"differ for carrier UA$"):
            compare(quiet, {**figures, key: other}, figures)
    less = {k: v for k, v in figures.items() if k != ("month", "1")}
    with pytest.raises(DemoFailed, match=r"differ for month 1$"):
        compare(quiet, less, figures)
