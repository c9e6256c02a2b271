"""docs/benchmarks.md is what the generator makes from the results in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from support.bench_results import result, rich_result, run, sweep_result, write

from silomq.bench.harness.results.model import Series
from silomq.bench.harness.suite.document import (
    PAGE,
    PLOTS,
    documents,
    main,
    results_in,
    short_table,
    with_short_table,
)

ROOT = Path(__file__).resolve().parents[5]
DOCS = ROOT / "docs"


def test_the_page_is_that_of_the_results_kept() -> None:
    made = documents(results_in(ROOT / "bench" / "results"))
    kept = {PAGE, *(f"{PLOTS}/{path.name}" for path in (DOCS / PLOTS).glob("*.svg"))}
    assert {*made} == kept
    for name, text in made.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, "make bench-docs"


def test_a_table_has_the_medians_of_each_result() -> None:
    found = documents([("b.json", sweep_result()), ("a.json", rich_result())])
    assert {*found} == {PAGE, f"{PLOTS}/example.svg"}
    page = found[PAGE]
    assert "| 106 k msg/s (102 k msg/s to 110 k msg/s) |" in page
    assert page.count("\n| size 16: SiloMQ") == 1
    assert "[a.json](../bench/results/a.json), 2026-01-02, A CPU, 2 cores" in page
    assert "No results" not in page
    assert found[f"{PLOTS}/example.svg"].startswith("<svg")


def test_names_make_no_markup() -> None:
    page = documents([("a.json", result([], name="a|b <i>\n## c"))])[PAGE]
    assert "### a\\|b \\<i\\> \\#\\# c\n" in page


def test_old_plots_go(tmp_path: Path) -> None:
    source, target = tmp_path / "results", tmp_path / "docs"
    source.mkdir()
    target.mkdir()
    write(rich_result(), source / "a.json")
    assert main([str(source), str(target)]) == 0
    assert (target / PLOTS / "example.svg").exists()
    (source / "a.json").unlink()
    assert main([str(source), str(target)]) == 0
    assert [path.name for path in (target / PLOTS).iterdir()] == []


def test_a_bad_file_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text("{")
    assert main([str(tmp_path), str(tmp_path)]) == 1
    assert "a.json: no JSON" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_parts_of_the_suite_have_sections_and_bars() -> None:
    """Results of one workload that are several parts are not mixed."""
    some = [
        ("one-producer-128.silomq.json", rich_result()),
        ("one-producer-128.rocketmq-store-5.json", rich_result()),
        ("one-producer-1k.silomq.json", rich_result()),
    ]
    page = documents(some)[PAGE]
    assert page.count("\n### ") == 2
    assert (
        "\n### one-producer-128\n\nA part of the suite `bars`, of the workload `example`." in page
    )
    assert page.count("\n| 1 producer, one call a message, 128 B: rate |") == 1
    assert "not measured" not in page


def test_what_runs_for_long_shows_its_slopes() -> None:
    long = result([run(seconds=90)])
    page = documents([("soak.silomq.json", long), ("sync.silomq.json", long)])[PAGE]
    table = page.partition("\n| over the run | mean | slope | from begin to end | |\n")[2]
    assert "| open files of the server | " in table
    assert "| over the run |" not in table, "only that of the part about drift"
    assert re.search(r"\n\| 20 minutes: things that drift \| \d ", page)


def test_pauses_of_the_machine_are_told() -> None:
    quiet, other = rich_result(), run()
    columns = {**other.series.columns, "core_pause": [None, 1e6, *[9000.0] * 18]}
    loud = result([msgspec.structs.replace(other, series=Series(other.series.time, columns))])
    page = documents([("a.json", quiet), ("b.json", loud)])[PAGE]
    assert page.count("\n  In half of all seconds a core stood still for 9 ms or more.\n") == 1


def test_the_readme_has_the_short_table() -> None:
    table = short_table(dict(results_in(ROOT / "bench" / "results")))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_short_table(readme, table) == readme, "make bench-docs"
    changed = with_short_table(readme, "| a table |\n")
    assert changed.count("| a table |\n") == 1
    assert with_short_table(changed, table) == readme
    assert with_short_table("no table", table) == "no table"
