"""Look-ups by time over random queues are what a plain scan of them gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from silomq.store.consumequeue import time_lookup
from silomq.store.consumequeue.time_lookup import BEFORE_LOG, QueueFile

if TYPE_CHECKING:
    pass


TIMES = st.lists(st.integers(0, 30), min_size=1, max_size=40).map(sorted)


@given(times=TIMES, first=st.integers(0, 1000), asked=st.integers(-1, 31))
def test_a_time_leads_to_the_first_since_and_the_last_until(
    times: list[int], first: int, asked: int
) -> None:
    end = first + len(times)

    def time_of(offset: int) -> int:
        assert first <= offset < end
        return times[offset - first]

    lower = time_lookup.first_since(time_of, first, end, asked)
    assert lower == next((first + i for i, t in enumerate(times) if t >= asked), end)
    upper = time_lookup.last_until(time_of, first, end, asked)
    assert upper == max((first + i for i, t in enumerate(times) if t <= asked), default=first - 1)


@given(times=TIMES, asked=st.integers(0, 31), gone=st.integers(0, 5))
def test_rocketmq_times(times: list[int], asked: int, gone: int) -> None:
    """Within one file: a message stored then, or else the nearer neighbour."""
    gone = min(gone, len(times) - 1)
    file = QueueFile(0, 20 * len(times), 100)

    def time_at(_: QueueFile, position: int) -> int:
        return BEFORE_LOG if position < 20 * gone else times[position // 20]

    found = time_lookup.rocketmq_offset([file], 20 * gone, asked, time_at)
    assert found >= gone
    distance = abs(times[found] - asked)
    assert distance == min(abs(t - asked) for t in times[gone:])


def test_rocketmq_chooses_the_file_by_its_date() -> None:
    files = [QueueFile(0, 40, 100), QueueFile(40, 40, 200), QueueFile(80, 20, 150)]
    times = [10, 90, 110, 190, 210]

    def time_at(file: QueueFile, position: int) -> int:
        return times[(file.base + position) // 20]

    def ask(timestamp: int) -> int:
        return time_lookup.rocketmq_offset(files, 0, timestamp, time_at)

    assert [ask(t) for t in (0, 95, 100, 101, 200, 201, 999)] == [0, 1, 1, 2, 3, 4, 4]
    assert time_lookup.rocketmq_offset([], 0, 5, time_at) == 0
