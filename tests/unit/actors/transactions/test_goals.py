"""A topic that cannot be made holds up no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from silomq.actors.goal_topics import NoRegistry, NoTopic
from silomq.actors.transactions import goals
from silomq.actors.transactions.goals import PAUSE_MS, Goals


class Rig:
    """Topics by name, and who asked for which."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topics = {"there"}
        self.asked: list[str] = []
        self.beats = 0
        self.answers = True
        world: Any = SimpleNamespace(table=SimpleNamespace(find=self._find))
        monkeypatch.setattr(goals, "find_slot", self._find_slot)
        self.goals = Goals(world, self._beat)

    def _beat(self) -> None:
        self.beats += 1

    def _find(self, topic: str) -> str | None:
        return topic if topic in self.topics else None

    def _find_slot(self, _world: object, topic: str, queue_id: int) -> tuple[int, int]:
        self.asked.append(topic)
        if topic in self.topics:
            return 1, queue_id
        raise (NoTopic if self.answers else NoRegistry)(f"no {topic}")

    def fails(self, topic: str, now: int) -> None:
        with pytest.raises(NoTopic):
            self.goals.slot(topic, 0, now)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def test_a_missing_topic_is_asked_for_once_in_a_while(rig: Rig) -> None:
    for now in range(1000, 1000 + PAUSE_MS, 100):
        rig.fails("missing", now)
    assert rig.asked == ["missing"]
    rig.fails("other", 1500)
    assert rig.goals.slot("there", 3, 1500) == (1, 3)
    rig.topics.add("missing")
    assert rig.goals.slot("missing", 0, 1500) == (1, 0)
    assert rig.beats == 2


def test_a_registry_that_does_not_answer_is_not_asked_for_every_topic(rig: Rig) -> None:
    rig.answers = False
    for i in range(100):
        rig.fails(f"missing{i}", 1000)
    assert rig.asked == ["missing0"]
    assert rig.goals.slot("there", 0, 1000) == (1, 0)
    rig.answers = True
    rig.topics.add("missing1")
    rig.fails("missing2", 1000 + PAUSE_MS)
    assert rig.asked[-1] == "missing2"


def test_a_clock_that_goes_back_ends_a_pause(rig: Rig) -> None:
    rig.fails("missing", 10**12)
    rig.fails("missing", 1000)
    assert rig.asked == ["missing", "missing"]


def test_many_missing_topics_take_no_memory(rig: Rig) -> None:
    for i in range(5000):
        rig.fails(f"t{i}", 1000)
    assert len(rig.goals._paused) <= 1024
