"""Suites: the shipped one, what a file may hold, and what a choice of parts leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.bench.harness.results.figures import BY_KEY
from silomq.bench.harness.run.catalog import targets
from silomq.bench.harness.suite.suite import Suite, names, narrowed, read
from silomq.bench.harness.workload.load import BadWorkload

if TYPE_CHECKING:
    from pathlib import Path

SMALL = """
[[parts]]
name = "a"
workload = "smoke"
targets = ["silomq", "redis"]
set = ["duration=2"]
also.redis = ["producers.size=64"]

[[parts]]
name = "b"
workload = "smoke"
targets = ["silomq"]

[[bars]]
title = "rate"
part = "a"
figure = "publish_rate"
beside = ["redis"]
at_least = 5
"""


def suite(folder: Path, text: str = SMALL) -> Suite:
    path = folder / "suite.toml"
    path.write_text(text)
    return read(str(path))


@pytest.mark.parametrize("name", names())
def test_every_part_of_a_shipped_suite_can_be_planned(name: str) -> None:
    shipped = narrowed(read(name), [], [], 3)
    assert shipped.description
    for part in shipped.parts:
        for target in part.targets:
            assert target in targets()
            plan = shipped.plan(part, target)
            assert (plan.workload.runs, plan.workload.target) == (3, target)


@pytest.mark.parametrize("name", names())
def test_every_bar_of_a_shipped_suite_is_of_its_part(name: str) -> None:
    """A step that is named must be one of the sweep, and latencies in us have bars in us."""
    shipped = read(name)
    parts = {part.name: part for part in shipped.parts}
    for bar in shipped.bars:
        steps = {step.value for step in shipped.plan(parts[bar.part], bar.target).steps}
        assert {bar.step, bar.beside_step} - {None} <= steps
        if len(steps) > 1:
            assert bar.step is not None, bar.title
        assert bar.figure in BY_KEY


def test_one_target_has_further_changes(tmp_path: Path) -> None:
    found = suite(tmp_path)
    part = found.parts[0]
    sizes = [found.plan(part, name).workload.producers.size for name in part.targets]
    assert sizes[1] == 64 != sizes[0]


def test_a_part_may_have_its_own_number_of_runs(tmp_path: Path) -> None:
    whole = suite(tmp_path, "runs = 3\n" + SMALL.replace("set = ", "runs = 1\nset = "))
    for found, wanted in ((whole, [1, 3]), (narrowed(whole, [], [], None), [1, 3])):
        assert [found.rounds(part) for part in found.parts] == wanted
        assert [found.plan(part, "silomq").workload.runs for part in found.parts] == wanted
    changed = narrowed(whole, [], [], 7)
    assert [changed.rounds(part) for part in changed.parts] == [7, 7]


def test_a_choice_of_targets_leaves_bars_that_can_be_measured(tmp_path: Path) -> None:
    whole = suite(tmp_path)
    assert [bar.title for bar in narrowed(whole, ["a"], [], None).bars] == ["rate"]
    alone = narrowed(whole, [], ["silomq"], 7)
    assert (alone.runs, [part.targets for part in alone.parts]) == (7, [["silomq"], ["silomq"]])
    assert alone.bars == []
    assert [part.name for part in narrowed(whole, [], ["redis"], None).parts] == ["a"]


@pytest.mark.parametrize(
    ("parts", "chosen", "said"),
    [
        (["c"], [], "--part c: one of a, b"),
        ([], ["kafka"], "--targets kafka: one of silomq, redis"),
        (["b"], ["redis"], "leave nothing to measure"),
    ],
)
def test_a_choice_that_cannot_be(
    parts: list[str], chosen: list[str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadWorkload, match=said):
        narrowed(suite(tmp_path), parts, chosen, None)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('name = "b"', 'name = "a"', "parts: each name once"),
        ('part = "a"', 'part = "c"', "bar rate: part c: one of a, b"),
        ('beside = ["redis"]', 'beside = ["kafka"]', "bar rate: kafka: no target of part a"),
        ("publish_rate", "rate", "bar rate: figure: one of publish_rate, "),
        ("at_least = 5", "", "at_least, at_most: give one of them"),
        ("at_least = 5", "at_least = 5\nbeside_step = 1", "beside_figure: give one"),
        ("at_least = 5", 'at_least = 5\nbeside_figure = "rate"', "bar rate: beside_figure: one of"),
        ("at_least = 5", "at_least = 0", "Expected `float` > 0"),
        ('["silomq", "redis"]', '["silomq", "silomq"]', "part a: targets: each once"),
        ("also.redis", "also.kafka", "part a: also.kafka: none of its targets"),
        ("[[bars]]", "[[bar]]", "unknown field `bar`"),
        ("[[bars]]", "[[bars", "no TOML"),
    ],
)
def test_a_file_that_is_no_suite(before: str, after: str, said: str, tmp_path: Path) -> None:
    assert before in SMALL
    with pytest.raises(BadWorkload) as caught:
        suite(tmp_path, SMALL.replace(before, after))
    assert said in str(caught.value)
    assert str(tmp_path / "suite.toml") in str(caught.value)


def test_a_name_that_is_not_shipped() -> None:
    with pytest.raises(BadWorkload, match="nothing: no such suite: one of bars, or a file"):
        read("nothing")
