"""The rows: goals that are ratios, goals that are not, and what is not judged."""

from __future__ import annotations

import pytest

from silomq.bench.broker.table import LINES, Goal, rows
from silomq.bench.rows import Row


def found(name: str, theirs: dict[str, list[float]], ours: dict[str, list[float]]) -> Row:
    (row,) = (row for row in rows({"rocketmq": theirs, "silomq": ours}) if row.name == name)
    return row


def test_a_ratio_is_held_against_the_median_of_the_other() -> None:
    name, key = "async send, window 1,000, 128 B", "async.rate"
    theirs = {key: [10.0, 1000.0, 20.0]}
    row = found(name, theirs, {key: [25.0, 24.0, 0.0]})
    assert (row.median, row.limit_samples, row.ratio) == (24.0, [10.0, 1000.0, 20.0], 1.2)
    assert (row.bar, row.bar_text, row.passed) == (24.0, "1.2 x theirs", True)
    assert found(name, theirs, {key: [23.9]}).passed is False


def test_less_is_better_where_the_goal_says_so() -> None:
    name, key = "memory, empty", "memory.empty_mib"
    assert found(name, {key: [400.0]}, {key: [80.0]}).passed is True
    assert found(name, {key: [400.0]}, {key: [80.1]}).passed is False


def test_a_goal_that_is_no_ratio_holds_whatever_the_other_has() -> None:
    name, key = "lone sync send, no JVM, p50", "lone.p50_us"
    row = found(name, {key: [300.0]}, {key: [61.0]})
    assert (row.bar, row.bar_text, row.passed, row.limit) == (60, "", False, "RocketMQ 5.3.3")


def test_what_only_ours_has_stands_alone() -> None:
    key = "connections.each_kib"
    row = found("  memory of each", {key: [-5.0]}, {key: [19.0]})
    assert (row.limit, row.limit_samples, row.ratio, row.passed) == ("", [], None, True)


def test_no_goal_is_no_verdict() -> None:
    key = "start.first_s"
    row = found("start, first send of a new JVM", {key: [5.0]}, {key: [2.0]})
    assert (row.passed, row.ratio) == (None, 0.4)


def test_figures_that_were_not_taken_have_no_row() -> None:
    assert rows({"rocketmq": {}, "silomq": {}}) == []


def test_a_figure_has_one_row() -> None:
    keys = [line.key for line in LINES]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("goal", "theirs", "line"),
    [
        (Goal(0.7), [1.0, 3.0, 2.0], 1.4),
        (Goal(0.7), [], 0.0),
        (Goal(20, is_ratio=False), [], 20),
    ],
)
def test_the_line_of_a_goal(goal: Goal, theirs: list[float], line: float) -> None:
    assert goal.line(theirs) == line
