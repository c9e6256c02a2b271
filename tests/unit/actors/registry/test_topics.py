"""Rights that the registry takes back, and topics that it deletes, while append and reput are in
the middle of a round: what they read before still counts for them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from support.small_tables import PLAN

from silomq.actors.registry.refusals import Refused
from silomq.actors.registry.topics import Topics
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.shm.protocol.requests import Alter, Delete, Open
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.topics.deletions import Deletions
from silomq.store.topics.topic_table import DELETED, TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.actors.actor import World


class Rounds:
    """Topics of a store whose append and reput are busy. They do the last of their work, and end
    their rounds, only when the registry waits for them: then it calls `beat`.
    """

    def __init__(self, path: Path) -> None:
        self.folders = StoreFolders(path, create=True)
        self.control = Control(bytearray(SIZE), STARTUP)
        self.control.create(1)
        self.table = TopicTable.create(bytearray(PLAN.size), PLAN)
        self.control.own("wrote").store(500)
        settings = SimpleNamespace(
            auto_create_topic_enable=True,
            default_topic_queue_nums=1,
            max_queues=PLAN.max_queues,
            max_sessions=PLAN.max_sessions,
            max_topics_per_uid=0,
            max_groups_per_uid=0,
        )
        world = SimpleNamespace(
            settings=settings, table=self.table, control=self.control, folders=self.folders
        )
        self.ended: list[str] = []
        self.topics = Topics(cast("World", world), None, self.beat)
        self.slot = self.topics.open(Open("t", write=True), 0).slots[0]
        self.queue_file = path / "consumequeue" / "t" / "0" / file_name(0)

    def beat(self) -> None:
        if not self.ended:
            # The frame that append was in: its session had the right when append looked.
            self.control.own("wrote").store(700)
        elif self.ended == ["append"]:
            # The record that reput was at: its topic was there when reput looked.
            assert self.table.queue_word(self.slot, "since").load() == DELETED
            self.queue_file.parent.mkdir(parents=True)
            self.queue_file.touch()
        else:
            return
        actor = ("append", "reput")[len(self.ended)]
        self.ended.append(actor)
        Control(self.control.memory, actor).own_beat().store(1)


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[Rounds]:
    found = Rounds(tmp_path)
    yield found
    found.folders.close()


def test_the_right_to_write_is_gone_once_append_has_ended_its_round(rounds: Rounds) -> None:
    rounds.topics.alter(Alter("t", perm=4))
    assert rounds.ended == ["append"], "the answer says that nothing more is appended"


def test_a_limit_must_be_a_number(rounds: Rounds) -> None:
    with pytest.raises(Refused, match=r"reserve\.time: 'x': hours"):
        rounds.topics.alter(Alter("t", set_attributes={"reserve.time": "x"}))


def test_a_light_queue_has_no_limits_of_its_own(rounds: Rounds) -> None:
    """No file would keep them."""
    with pytest.raises(Refused, match="light queue %LMQ%q has no limits of its own"):
        rounds.topics.alter(Alter("%LMQ%q", set_attributes={"silomq.reserve.size": "5"}))
    assert rounds.table.find("%LMQ%q") is None
    rounds.topics.alter(Alter("%LMQ%q", perm=4, set_attributes={"message.type": "NORMAL"}))


def test_what_append_was_at_belongs_to_the_deleted_topic(rounds: Rounds) -> None:
    """A start would take a record behind the deletion for one of a new topic of that name."""
    rounds.topics.delete(Delete("t"))
    assert Deletions.read(rounds.folders.ours).below("t") == 700


def test_what_reput_was_at_is_removed_with_the_topic(rounds: Rounds) -> None:
    rounds.topics.delete(Delete("t"))
    assert rounds.ended == ["append", "reput"]
    assert not rounds.queue_file.parents[1].exists()
