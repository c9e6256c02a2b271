"""Groups that a broker keeps: their offsets survive every death, and a reset counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import QUEUES, drain, send
from support.harness import StoreProcess, eventually

from silomq import Admin, GroupConsumer, IllegalMessage
from silomq.client.session import Connection
from silomq.shm.protocol.requests import AskProgress, Keep, OpenGroup, Release, Remote
from silomq.store.groups.ack_file import AckWriter

if TYPE_CHECKING:
    from pathlib import Path


class Keeper:
    """A session that keeps groups, as a broker has one."""

    def __init__(self, store: Path) -> None:
        self.link = Connection(store, client="keeper")
        self.number = 0
        self.writer: AckWriter | None = None
        self.resets: list[tuple[str, int, int]] = []

    def keep(self, group: str, topic: str, **offsets: int) -> None:
        queues = {int(name[1:]): offset for name, offset in offsets.items()}
        answer, fds = self.link.ask(Keep(group, {topic: queues}, self.number))
        self.resets = []
        if fds:
            self.writer = AckWriter(*fds)
            found = self.writer.about.resets
            self.resets = [reset[:3] for reset in found if reset[3] > self.number]
        self.link.drop(fds)
        self.number = answer.number

    def move(self, topic: str, queue_id: int, offset: int) -> None:
        assert self.writer is not None
        self.writer.move(self.writer.about.queues.index((topic, queue_id)), offset)

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        return self.link.request(AskProgress(group, topic)).offsets

    def close(self) -> None:
        self.link.close()


def test_offsets_survive_the_death_of_every_process(tmp_path: Path) -> None:
    store = StoreProcess(tmp_path / "store", default_topic_queue_nums=QUEUES)
    with store:
        send(store, "orders", 40)
        keeper = Keeper(store.path)
        assert keeper.offsets("readers", "orders") == {}
        keeper.keep("readers", "orders", q0=2, q1=0)
        keeper.move("orders", 0, 5)
        assert keeper.offsets("readers", "orders") == {0: 5, 1: 0}
        store.replace("registry")
        keeper.keep("readers", "orders", q2=1)  # a new file, with what was written in the old one
        assert keeper.offsets("readers", "orders") == {0: 5, 1: 0, 2: 1}
        keeper.move("orders", 2, 4)
        store.crash()
        keeper.close()
        store.start()
        keeper = Keeper(store.path)
        assert keeper.offsets("readers", "orders") == {0: 5, 1: 0, 2: 4}
        keeper.close()


def test_a_new_keeper_goes_on_where_a_dead_one_was(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    first = Keeper(store.path)
    first.keep("resumed", topic, q0=0)
    first.move(topic, 0, 3)
    second = Keeper(store.path)
    with pytest.raises(IllegalMessage, match="served by another broker"):
        second.keep("resumed", topic, q0=0)
    first.close()
    eventually(lambda: _keeps(second, topic), "the first session has ended")
    assert second.offsets("resumed", topic) == {0: 3}
    second.close()


def _keeps(keeper: Keeper, topic: str) -> bool:
    try:
        keeper.keep("resumed", topic, q0=0)
    except IllegalMessage:
        return False
    return True


def test_a_reset_counts_and_the_keeper_learns_of_it(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    keeper = Keeper(store.path)
    keeper.keep("moved", topic, q0=0, q1=0)
    keeper.move(topic, 0, 9)
    keeper.move(topic, 1, 4)
    notice = keeper.link.notice.load()
    with Admin(store.path) as admin:
        admin.reset_offset("moved", topic, {0: 1})
    assert keeper.link.notice.load() != notice
    keeper.move(topic, 0, 10)  # into the old file: it does not count
    keeper.keep("moved", topic)
    assert keeper.resets == [(topic, 0, 1)]
    assert keeper.offsets("moved", topic) == {0: 1, 1: 4}
    keeper.move(topic, 0, 2)
    keeper.keep("moved", topic)
    assert keeper.resets == []
    assert keeper.offsets("moved", topic) == {0: 2, 1: 4}
    keeper.close()


def test_a_reset_is_told_after_the_death_of_the_registry(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    keeper = Keeper(store.path)
    keeper.keep("told", topic, q0=9, q1=4)
    with Admin(store.path) as admin:
        admin.reset_offset("told", topic, {0: 1})
    store.kill("registry")
    keeper.keep("told", topic)
    assert keeper.resets == [(topic, 0, 1)]
    assert keeper.offsets("told", topic) == {0: 1, 1: 4}
    keeper.keep("told", topic, q2=3)
    assert keeper.resets == []
    keeper.close()


def test_a_reset_of_many_queues(tmp_path: Path) -> None:
    """More than one packet of an answer takes."""
    count, topic = 1024, "t" * 120
    with (
        StoreProcess(tmp_path / "store", max_queues=4096) as store,
        Admin(store.path) as admin,
    ):
        admin.create_topic(topic, read_queues=count, write_queues=count)
        keeper = Keeper(store.path)
        keeper.keep("many", topic, **{f"q{n}": 0 for n in range(count)})
        pid = store.pid("registry")
        admin.reset_offset("many", topic, dict.fromkeys(range(count), 0))
        keeper.keep("many", topic)
        assert len(keeper.resets) == count
        assert store.pid("registry") == pid, "it has not died"
        keeper.close()


def test_a_deleted_topic_is_taken_from_its_keeper(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    keeper = Keeper(store.path)
    keeper.keep("left", topic, q0=2)
    with Admin(store.path) as admin:
        admin.delete_topic(topic)
    keeper.keep("left", topic)
    assert keeper.writer is not None
    assert keeper.writer.about.queues == []
    keeper.close()


def test_a_keeper_without_members_does_not_disturb_others(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    keeper = Keeper(store.path)
    with GroupConsumer(store.path, "mixed", topic, start="earliest") as member:
        assert len(drain(member)[0]) == 40
        with pytest.raises(IllegalMessage, match="clients of the store"):
            keeper.keep("mixed", topic, q0=0)
    eventually(lambda: not _members(store), "the member has left")
    keeper.keep("mixed", topic, q0=0)
    with Admin(store.path) as admin, pytest.raises(IllegalMessage, match="has members"):
        admin.delete_group("mixed")
    keeper.link.request(Release("mixed"))
    with GroupConsumer(store.path, "mixed", topic) as member:
        assert drain(member)[0] == []
    keeper.close()


def test_a_keeper_gives_back_what_is_revoked(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    keeper = Keeper(store.path)
    named = keeper.link.request(Remote("halves", ["a"], [topic]))
    assert (named.mixed, named.number > 0) == (False, True)
    keeper.keep("halves", topic, q0=0, q7=0)
    keeper.move(topic, 0, 2)
    keeper.move(topic, 7, 4)
    notice = keeper.link.notice.load()
    with GroupConsumer(store.path, "halves", topic, start="earliest") as member:
        eventually(lambda: keeper.link.notice.load() != notice, "the keeper is told")
        named = keeper.link.request(Remote("halves", ["a"], [topic]))
        assert (named.mixed, len(named.clients)) == (True, 2)
        assert named.revoked == [(topic, i) for i in range(4, QUEUES)]
        assert drain(member)[0] == [], "nothing is given back yet"
        starts = {4: 0, 5: 3, 6: -1, 7: 1}
        released = [(topic, queue_id, offset) for queue_id, offset in starts.items()]
        store.replace("registry")
        named = keeper.link.request(Remote("halves", ["a"], [topic], released))
        assert (named.has, named.revoked) == ([(topic, i) for i in range(4)], [])
        wanted = {4: 5, 5: 2, 6: 5, 7: 1}  # messages from where the keeper's members were
        found = drain(member)[0]
        assert {i: sum(one % QUEUES == i for one in found) for i in wanted} == wanted
        assert keeper.offsets("halves", topic) == {0: 2, 4: 5, 5: 5, 6: 5, 7: 5}
        keeper.move(topic, 7, 3)  # late, into the old file: it does not count
        keeper.keep("halves", topic, q7=3)
        assert keeper.offsets("halves", topic)[7] == 5
        keeper.close()  # its members are expected back
        assert drain(member, quiet_s=0.6)[0] == []


def _members(store: StoreProcess) -> int:
    with Admin(store.path) as admin:
        return len(admin.group("mixed").members)


def test_what_cannot_be_kept_is_refused(store: StoreProcess, topic: str) -> None:
    send(store, topic, 40)
    keeper = Keeper(store.path)
    for group, name, queue in (("g", topic, "q99"), ("g", "nothing", "q0"), ("a b", topic, "q0")):
        with pytest.raises(IllegalMessage):
            keeper.keep(group, name, **{queue: 0})
    assert keeper.offsets("g", topic) == {}
    keeper.close()


def test_settings_of_a_group_are_found_and_made(store: StoreProcess) -> None:
    keeper = Keeper(store.path)
    assert not keeper.link.request(OpenGroup("unknown", make=False)).known
    made = keeper.link.request(OpenGroup("unknown", make=True))
    assert (made.known, made.retry_max_times, made.retry_queue_nums) == (True, 16, 1)
    assert keeper.link.request(OpenGroup("unknown", make=False)).known
    keeper.close()
