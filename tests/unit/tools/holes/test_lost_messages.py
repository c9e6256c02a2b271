"""How far a queue reached whose last messages were in a gap, by what is left of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.tools.holes.lost_messages import QueueEntries

if TYPE_CHECKING:
    from collections.abc import Iterable


def entries(*numbers: int) -> dict[int, int]:
    return dict.fromkeys(numbers, 0)


@pytest.mark.parametrize(
    ("places", "files", "end"),
    [
        pytest.param(range(200, 204), [(200, 300)], 204, id="entries in a row"),
        pytest.param((), [(200, 300)], 200, id="no entry"),
        pytest.param((), [], 200, id="no file"),
        pytest.param(range(300, 304), [(300, 400)], 304, id="the file before is lost"),
        pytest.param((*range(200, 210), 300), [(200, 210), (300, 400)], 301, id="one is cut short"),
        pytest.param((*range(200, 210), 300), [(200, 300), (300, 400)], 210, id="zeros in between"),
        pytest.param((301, 302), [(300, 400)], 200, id="the next file begins with a zero"),
        pytest.param(range(300, 304), [(0, 100), (300, 400), (500, 600)], 304, id="files apart"),
        pytest.param((300, 10**15), [(300, 301), (10**15, 10**15 + 1)], 301, id="a name far away"),
        pytest.param(range(200, 2000), [(200, 2000)], 1200, id="more than a gap can hold"),
    ],
)
def test_the_end_of_a_queue(places: Iterable[int], files: list[tuple[int, int]], end: int) -> None:
    assert QueueEntries(entries(*places), files).end(200, 1000) == end
