"""The queues that have grown, among many that come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silomq.broker.groups._arrivals import Arrivals
from silomq.shm._words import OwnedWord

QUEUES = 200


@given(st.lists(st.tuples(st.integers(0, QUEUES - 1), st.sampled_from("arg")), max_size=400))
def test_only_those_that_have_grown(steps: list[tuple[int, str]]) -> None:
    """a: added, r: removed, g: the queue grows."""
    memory = bytearray(8 * QUEUES)
    words = [OwnedWord(memory, 8 * slot) for slot in range(QUEUES)]
    arrivals = Arrivals()
    seen: dict[int, int] = {}
    for slot, step in steps:
        if step == "g":
            words[slot].add(1)
        elif step == "a" and slot not in seen:
            seen[slot] = words[slot].load()
            arrivals.add(slot, words[slot], seen[slot])
        elif step == "r" and slot in seen:
            arrivals.remove(slot)
            del seen[slot]
        wanted = [slot for slot, was in seen.items() if words[slot].load() != was]
        assert sorted(arrivals.grown()) == sorted(wanted)


def test_one_slot_counts_once() -> None:
    arrivals, word = Arrivals(), OwnedWord(bytearray(8), 0)
    arrivals.add(7, word, 0)
    with pytest.raises(ValueError, match="slot 7"):
        arrivals.add(7, word, 0)
    arrivals.remove(7)
    with pytest.raises(KeyError):
        arrivals.remove(7)
