"""The registry's topics: opening, making, changing, deleting, listing and saving them.

What the registry answers about topics, apart from who asks. It alone writes topics, queues and
grants of the topic table, and `config/topics.json`, which is saved a little after a topic was made
for a producer, and before the answer to whoever asks for a change.

A deletion goes through steps that each may be done again: the topic's entry says so, nobody may
write to it, append is through with what it had; the deletion is decided
(`store/topics/deletions.py`); reput is through with its queues; topics.json, the folders. A
registry that is killed in between leaves it to its successor, a store that dies to the next start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...shm._words import fault
from ...store.config import topics
from ...store.config.topics import TopicConfig
from ...store.disk.paths import TOPICS
from ...store.names import TIMER_TOPIC, UNSENDABLE_TOPICS, is_system_topic, validate_topic
from ...store.status import PutMessageStatus
from ...store.topics import table_changes
from ...store.topics.deletions import Deletions, remove_queues
from ...store.topics.topic_table import Topic, TopicState
from ..actor import TICK_S, World

_SAVE_DELAY_S = 0.1
_PAGE_TOPICS = 100
_WRITE, _READ = 2, 4
_BARRIER_S = 5.0
_STEP_S = 0.001


class Refused(Exception):
    """A request that is answered with an error: a PutMessageStatus name and one sentence."""

    def __init__(self, status: PutMessageStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def _illegal(why: str) -> Refused:
    return Refused(PutMessageStatus.MESSAGE_ILLEGAL, why)


def _later(why: str) -> Refused:
    return Refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)


class Topics:
    """The topics of the store; answers are the registry's to its clients.

    Methods raise Refused, IllegalMessage for a name that is not a topic's, and TableFull.
    `unsaved_since` is when (monotonic seconds) the first change came that is not saved, or 0.
    """

    def __init__(self, world: World, logger: Any, beat: Callable[[], None]) -> None:
        """The saved attributes, and every topic of the table: a predecessor may not have saved the
        newest. `beat` is called while a method waits.
        """
        self.settings = world.settings
        self.table = world.table
        self.control = world.control
        self.queue_folder = world.folders.consume_queue
        self.logger = logger
        self.beat = beat
        self.count_word = world.control.own("topics")
        self.path = f"{world.folders.config.path}/{TOPICS}"
        saved, _ = topics.load(self.path)
        self.version = saved.data_version
        self.configs = dict(saved.topics)
        self.save_delay_s = _SAVE_DELAY_S
        self.unsaved_since = 0.0
        self.deletions = Deletions.read(world.folders.ours)
        self.live = 0
        self.deleting: dict[str, Topic] = {}
        for topic in self.table.entries():
            if topic.state == TopicState.LIVE:
                self.live += 1
                self._adopt(topic)
            elif topic.state == TopicState.DELETING:
                self.deleting[topic.name] = topic
        self.count_word.store(self.live)
        for name in list(self.deleting):
            self._go_on_deleting(name)

    def _adopt(self, topic: Topic) -> None:
        """What the table says counts: its writer may have been killed before it could save."""
        has = (topic.read_queue_nums, topic.write_queue_nums, topic.perm)
        saved = self.configs.get(topic.name)
        if saved is None:
            self.configs[topic.name] = TopicConfig(topic.name, *has)
        elif (saved.read_queue_nums, saved.write_queue_nums, saved.perm) != has:
            self.configs[topic.name] = _changed(saved, *has)
        else:
            return
        self.unsaved_since = time.monotonic()

    def open(self, name: str, *, write: bool, session: int | None) -> dict[str, Any]:
        """The queues of a topic, which is made if it does not exist and the settings allow it;
        grants writing to the session with the index `session`.
        """
        validate_topic(name)
        if write and (name in UNSENDABLE_TOPICS or name == TIMER_TOPIC):
            why = f"topic {name} is the store's own: use delay_level=, deliver_at= or another topic"
            raise Refused(PutMessageStatus.MESSAGE_ILLEGAL, why)
        topic = self.table.find(name)
        if topic is None:
            if not (write and self.settings.auto_create_topic_enable):
                why = f"topic {name} does not exist" + (
                    ", and auto_create_topic_enable is off: create it (silo topics create)"
                    if write
                    else ""
                )
                raise _illegal(why)
            queues = self.settings.default_topic_queue_nums
            topic = self._add(TopicConfig(name, queues, queues))
        if not topic.perm & (_WRITE if write else _READ):
            why = f"topic {name} may not be {'written' if write else 'read'} (perm {topic.perm})"
            raise _illegal(why)
        if write and session is not None:
            self.table.grant(session, topic.index)
        nums = topic.write_queue_nums if write else topic.read_queue_nums
        return {"ok": True, "index": topic.index, "slots": topic.slots[:nums]}

    def create(self, name: str, queues: int) -> dict[str, Any]:
        """Makes a topic with `queues` queues (0: as many as the settings say) and saves it."""
        validate_topic(name)
        self._refuse_system(name)
        queues = queues or self.settings.default_topic_queue_nums
        self._check_queues(queues)
        topic = self.table.find(name)
        if topic is not None:
            if topic.write_queue_nums != queues:
                why = f"topic {name} exists with {topic.write_queue_nums} queues"
                raise _illegal(f"{why}: change it with silo topics update")
            if not self.unsaved_since:
                return {"ok": True}
        else:
            self._add(TopicConfig(name, queues, queues))
        self._save_now()
        return {"ok": True}

    def alter(self, name: str, changes: dict[str, Any]) -> dict[str, Any]:
        """Makes or changes a topic, as RocketMQ's updateTopic does. `changes` are read_queues,
        write_queues, perm and order; what is None stays, or is the default.

        Of the queues that a topic no longer uses the folders and messages stay.
        """
        validate_topic(name)
        self._refuse_system(name)
        queues = self.settings.default_topic_queue_nums
        before = self.configs.get(name) or TopicConfig(name, queues, queues)
        after = _changed(
            before,
            _number(changes, "read_queues", before.read_queue_nums),
            _number(changes, "write_queues", before.write_queue_nums),
            _number(changes, "perm", before.perm),
            order=before.order if changes.get("order") is None else bool(changes["order"]),
        )
        self._check_queues(after.read_queue_nums)
        self._check_queues(after.write_queue_nums)
        if after.perm not in (_WRITE, _READ, _WRITE | _READ):
            raise _illegal(f"perm {after.perm}: 2 (write), 4 (read) or 6 (both)")
        topic = self.table.find(name)
        if topic is None:
            self._add(after)
        else:
            self._apply(topic, after)
        self._save_now()
        return {"ok": True}

    def _apply(self, topic: Topic, config: TopicConfig) -> None:
        table_changes.grow(
            self.table, topic.index, max(config.read_queue_nums, config.write_queue_nums)
        )
        fault("registry:grown")
        self.table.set_topic(
            topic.index,
            perm=config.perm,
            read_nums=config.read_queue_nums,
            write_nums=config.write_queue_nums,
        )
        self.configs[topic.name] = config
        self.unsaved_since = self.unsaved_since or time.monotonic()
        if not config.writable:
            self.table.revoke(topic.index, self.settings.max_sessions)
            fault("registry:revoked")
            self._await_round("append")

    def delete(self, name: str) -> dict[str, Any]:
        """Deletes a topic, its queues with it; `deleted` says whether there was one. Its messages
        are never seen again, and a topic of that name starts with queue offset 0.
        """
        validate_topic(name)
        self._refuse_system(name)
        topic = self.table.find(name)
        if topic is not None:
            self.table.set_topic(topic.index, state=TopicState.DELETING)
            self.deleting[name] = topic
            self.live -= 1
            self.count_word.store(self.live)
            fault("registry:deleting")
        there = name in self.deleting
        if there:
            self._delete(self.deleting[name])
        return {"ok": True, "deleted": there}

    def _delete(self, topic: Topic) -> None:
        name, table = topic.name, self.table
        decided = self.deletions.topics.get(name)
        table.revoke(topic.index, table.max_sessions)
        self._await_round("append")
        try:
            if decided is None or decided.done:
                self.deletions.decide(name, self.control.load("wrote"), self._entries(topic))
            fault("registry:decided")
            table_changes.retire(table, topic.index)
            for slot in topic.slots:  # who sleeps until a message comes is to hear of it
                self.control.arrival(slot).wake()
            self._await_round("reput")
            self.configs.pop(name, None)
            self._save_now()
            fault("registry:unlisted")
            remove_queues(self.queue_folder, name)
            fault("registry:removed")
            self.deletions.finish(name, self._entries(topic))
        except OSError as error:
            self.logger.error("cannot delete a topic", topic=name, error=str(error))
            why = f"topic {name} is half deleted ({error.strerror}): delete it again"
            raise _later(why) from error
        fault("registry:finished")
        table_changes.end_deletion(table, topic.index)
        del self.deleting[name]

    def _go_on_deleting(self, name: str) -> None:
        """What a killed predecessor had begun; what fails is left to the next who asks."""
        topic = self.deleting[name]
        decided = self.deletions.topics.get(name)
        if decided and decided.done and self.table.is_deleted(topic.slots[0]):
            table_changes.end_deletion(self.table, topic.index)
            del self.deleting[name]
            return
        self.logger.warning("goes on with the deletion of a topic", topic=name)
        try:
            self._delete(topic)
        except Refused as error:
            self.logger.error("a topic is half deleted", topic=name, error=str(error))

    def _entries(self, topic: Topic) -> int:
        return sum(self.table.queue_word(slot, "max_offset").load() for slot in topic.slots)

    def _await_round(self, actor: str) -> None:
        """Waits until `actor` (append, reput) is through with whatever it did before this call, and
        sees what was written before it. Raises Refused.

        It beats between two rounds. One that sleeps is in none; what it said of that has reached
        this process after a millisecond.
        """
        beat = self.control.beat(actor)
        asleep = self.control.word(f"{actor}_asleep")
        time.sleep(_STEP_S)
        seen, deadline = beat.load(), time.monotonic() + _BARRIER_S
        while beat.load() == seen and not asleep.load():
            if time.monotonic() > deadline:
                raise _later(f"{actor} has not come round for {_BARRIER_S:g} s: try again")
            self.beat()
            time.sleep(_STEP_S)

    def _refuse_system(self, name: str) -> None:
        if is_system_topic(name):
            raise _illegal(f"topic {name} is the store's own: it cannot be changed or deleted")

    def _check_queues(self, queues: int) -> None:
        if not 1 <= queues <= self.settings.max_queues:
            raise _illegal(f"{queues} queues: 1 to {self.settings.max_queues}")

    def _add(self, config: TopicConfig) -> Topic:
        name = config.topic_name
        if name in self.deleting:
            self._delete(self.deleting[name])
        topic = self.table.add_topic(
            name,
            write_nums=config.write_queue_nums,
            read_nums=config.read_queue_nums,
            perm=config.perm,
            since=self.deletions.below(name),
        )
        self.configs[name] = config
        self.unsaved_since = self.unsaved_since or time.monotonic()
        self.live += 1
        self.count_word.store(self.live)
        self.count_word.wake()
        return topic

    def topic(self, name: str) -> dict[str, Any]:
        """Everything about one topic."""
        validate_topic(name)
        topic = self.table.find(name)
        if topic is None:
            raise _illegal(f"topic {name} does not exist")
        return {"ok": True, "topic": self._described(topic)}

    def _described(self, topic: Topic) -> dict[str, Any]:
        return {
            "topic": topic.name,
            "index": topic.index,
            "perm": topic.perm,
            "write_queues": topic.write_queue_nums,
            "read_queues": topic.read_queue_nums,
            "order": self.configs[topic.name].order,
        }

    def page(self, after: int) -> dict[str, Any]:
        """Up to 100 topics from entry `after` on; `next` is where to go on, -1 at the end."""
        count = self.table.topic_count
        end = min(after + _PAGE_TOPICS, count)
        page = [self.table.topic(i) for i in range(after, end)]
        return {
            "ok": True,
            "topics": [self._described(t) for t in page if t.state == TopicState.LIVE],
            "next": end if end < count else -1,
        }

    def due_in(self) -> float:
        """Seconds until a change must be saved; not positive once it is due."""
        return self.unsaved_since + self.save_delay_s - time.monotonic()

    def _save_now(self) -> None:
        """Saves before the answer. Raises Refused."""
        self.save()
        if self.unsaved_since:
            raise _later("config/topics.json cannot be written: see the store's log, try again")

    def save(self) -> None:
        """Replaces topics.json. With many topics a save takes long, so the next one waits in
        proportion.
        """
        began = time.monotonic()
        self.version = self.version.next(int(time.time() * 1000))
        try:
            topics.save(self.path, topics.TopicTable(self.configs, self.version))
        except OSError as error:
            self.logger.error("cannot save topics.json; trying again", error=str(error))
            self.unsaved_since = time.monotonic() + TICK_S
            return
        self.unsaved_since = 0.0
        self.save_delay_s = max(_SAVE_DELAY_S, 5 * (time.monotonic() - began))


def _changed(
    config: TopicConfig, read_nums: int, write_nums: int, perm: int, *, order: bool | None = None
) -> TopicConfig:
    return replace(
        config,
        read_queue_nums=read_nums,
        write_queue_nums=write_nums,
        perm=perm,
        order=config.order if order is None else order,
    )


def _number(changes: dict[str, Any], name: str, otherwise: int) -> int:
    value = changes.get(name)
    return otherwise if value is None else int(value)
