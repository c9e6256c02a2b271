"""How queues are divided among clients that let the broker divide."""

from __future__ import annotations

import pytest

from silomq.broker.processors.assignments import divide, divide_to_pop

QUEUES = list(range(5))
CLIENTS = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("AVG", [[0, 1], [2, 3], [4]]),
        ("AVG_BY_CIRCLE", [[0, 3], [1, 4], [2]]),
        ("MACHINE_ROOM", [[], [], []]),
    ],
)
def test_strategies(strategy: str, expected: list[list[int]]) -> None:
    assert [divide(strategy, client, QUEUES, CLIENTS) for client in CLIENTS] == expected
    assert divide(strategy, "nobody", QUEUES, CLIENTS) == []


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0, [[-1], [-1], [-1]]),
        (-1, [[-1], [-1], [-1]]),
        (2, [[-1], [-1], [-1]]),
        (1, [[0, 1, 2, 3], [2, 3, 4], [0, 1, 4]]),
    ],
)
def test_pops_are_shared(share: int, expected: list[list[int]]) -> None:
    found = [divide_to_pop("AVG", client, QUEUES, CLIENTS, share) for client in CLIENTS]
    assert found == expected


def test_more_clients_than_queues() -> None:
    found = [divide_to_pop("AVG", client, [0, 1], ["a", "b", "c", "d"], 1) for client in "abcd"]
    assert found == [[0], [1], [0], [1]]
    assert divide_to_pop("AVG", "a", [], ["a"], 0) == []
