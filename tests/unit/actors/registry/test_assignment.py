"""Queues are divided as RocketMQ divides them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.actors.registry.assignment import average


@pytest.mark.parametrize(
    ("queues", "members", "expected"),
    [
        (4, "ab", [[0, 1], [2, 3]]),
        (5, "ab", [[0, 1, 2], [3, 4]]),
        (2, "abc", [[0], [1], []]),
        (8, "abc", [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (0, "a", [[]]),
    ],
)
def test_queues_are_divided_as_rocketmq_divides_them(
    queues: int, members: str, expected: list[list[int]]
) -> None:
    """AllocateMessageQueueAveragelyTest of RocketMQ has these."""
    assert [list(ids) for ids in average(queues, members).values()] == expected


@given(st.integers(0, 200), st.lists(st.integers(), unique=True, max_size=30))
def test_every_queue_has_one_member(queues: int, members: list[int]) -> None:
    """Java's formula, as RocketMQ writes it, member by member."""
    found = average(queues, members)
    for index, member in enumerate(members):
        mod = queues % len(members)
        size = queues // len(members) + (mod > 0 and index < mod)
        size = size if queues > len(members) else min(1, queues - index if queues > index else 0)
        start = index * size if mod > 0 and index < mod else index * size + mod
        stop = min(start + size, queues)
        assert list(found[member]) == list(range(start, max(start, stop)))
    assert sorted(q for ids in found.values() for q in ids) == (
        list(range(queues)) if members else []
    )
