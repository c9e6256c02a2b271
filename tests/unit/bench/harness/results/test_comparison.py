"""Results side by side: ratios, noise, and what must be said first."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec
from support.bench_results import MACHINE, SERVER, result, rich_result, run, sweep_result

from silomq.bench.harness.results.comparison import (
    comparison,
    differing,
    names,
    plot_of,
    rows,
    warnings,
)

if TYPE_CHECKING:
    from silomq.bench.harness.results.model import Result


@functools.cache
def base() -> Result:
    return rich_result()


@functools.cache
def faster() -> Result:
    return result(
        [run(n, 212_000.0 + 2000 * n) for n in range(1, 6)],
        server=msgspec.structs.replace(
            SERVER, title="Peer", durability=1, settings={"flush": "no"}
        ),
        machine=msgspec.structs.replace(MACHINE, cores=64),
        workload={"producers": {"processes": 4, "size": 128}},
        name="other",
        interrupted=True,
    )


@functools.cache
def few() -> Result:
    return result([run(1, 50_000.0)])


def said(made: list[Result]) -> dict[str, list[str]]:
    return {row.figure.key: [cell.said() for cell in row.cells] for row in rows(made)}


def test_a_figure_has_its_ratio_and_what_the_noise_is() -> None:
    found = said([base(), faster(), few()])
    first, second, third = found["publish_rate"]
    assert first == "106 k msg/s\n102 k msg/s to 110 k msg/s"
    assert second.startswith("218 k msg/s (2.06×)\n")
    assert second.endswith("; differs")
    assert third == "50 k msg/s (0.472×)\nnoise unknown"
    assert found["publish_p50"][1].endswith("within the noise")


def test_what_promises_less_is_marked() -> None:
    shown = names([base(), faster()], ["a", "b"])
    assert shown == ["SiloMQ 0.1.0", "Peer 0.1.0*"]
    found = warnings([base(), faster()], shown)
    promise = "an acknowledged message is lost if the server's process is killed."
    assert f"Peer 0.1.0* promises less: {promise}" in found
    assert len([one for one in found if "promises less" in one]) == 1
    assert [one for one in found if "another workload" in one]
    assert [one for one in found if "cores is 64, not 2" in one]
    assert [one for one in found if "was interrupted" in one]
    assert warnings([base(), base()], ["a", "b"]) == []


def test_results_of_one_target_are_told_apart_by_their_files() -> None:
    shown = names([base(), few()], ["a.json", "b.json"])
    assert shown == ["SiloMQ 0.1.0 [a.json]", "SiloMQ 0.1.0 [b.json]"]


def test_settings_that_differ_are_listed() -> None:
    assert differing([base(), faster()]) == [
        ("workload: producers.processes", ["1", "4"]),
        ("server: flush", ["async", "no"]),
    ]


def test_one_plot_shows_all() -> None:
    by_percentile = plot_of([base(), faster()], ["one", "two"])
    assert by_percentile is not None
    assert [line.name for line in by_percentile.lines] == ["one", "two"]
    sweep = plot_of([sweep_result(), sweep_result()], ["one", "two"])
    assert sweep is not None
    assert [len(line.points) for line in sweep.lines] == [4, 4]
    assert plot_of([result([]), result([])], ["one", "two"]) is None


def test_the_page() -> None:
    text = comparison([base(), faster(), result([])], ["a", "b", "c"]).decode()
    assert text.count("<svg") == 1
    assert text.count('class="warn"') == len(warnings([base(), faster(), result([])], [""] * 3))
    assert "Settings that differ" in text
    assert "–" in text  # what the third has not
