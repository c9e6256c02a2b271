"""The registry's topics: opening, making, listing and saving them.

What the registry answers about topics, apart from who asks. It alone writes topics, queues and
grants of the topic table, and `config/topics.json`, which is saved a little after each change.
"""

from __future__ import annotations

import time
from typing import Any

from ..store import topics_json
from ..store.delays import LEVELS
from ..store.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    UNSENDABLE_TOPICS,
    dead_letter_topic,
    retry_topic,
    validate_group,
    validate_topic,
)
from ..store.paths import TOPICS
from ..store.status import PutMessageStatus
from ..store.table import Topic
from ..store.topics_json import TopicConfig
from .frame import TICK_S, World

_SAVE_DELAY_S = 0.1
_PAGE_TOPICS = 200
_WRITE, _READ = 2, 4
# The topics in which messages wait for their time, and how many queues they have.
_DELAYED = {SCHEDULE_TOPIC: LEVELS, TIMER_TOPIC: 1}


class Refused(Exception):
    """A request that is answered with an error: a PutMessageStatus name and one sentence."""

    def __init__(self, status: PutMessageStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Topics:
    """The topics of the store; answers are the registry's to its clients.

    Methods raise Refused, IllegalMessage for a name that is not a topic's, and TableFull.
    `unsaved_since` is when (monotonic seconds) the first change came that is not saved, or 0.
    """

    def __init__(self, world: World, logger: Any) -> None:
        """The saved attributes, and every topic of the table: a predecessor may not have saved the
        newest.
        """
        self.settings = world.settings
        self.table = world.table
        self.logger = logger
        self.control = world.control
        self.count_word = world.control.own("topics")
        self.path = f"{world.folders.config.path}/{TOPICS}"
        saved, _ = topics_json.load(self.path)
        self.version = saved.data_version
        self.configs = dict(saved.topics)
        self.save_delay_s = _SAVE_DELAY_S
        self.unsaved_since = 0.0
        for topic in self.table.topics():
            if topic.name not in self.configs:
                self.configs[topic.name] = TopicConfig(
                    topic.name, topic.read_queue_nums, topic.write_queue_nums, topic.perm
                )
                self.unsaved_since = time.monotonic()
        self.count_word.store(self.table.topic_count)
        self.watch_delayed()

    def watch_delayed(self) -> None:
        """The schedule process sleeps on the arrival words of the delayed messages' queues."""
        for name in _DELAYED:
            topic = self.table.find(name)
            for slot in topic.slots if topic is not None else ():
                self.control.watch(slot)

    def open_delayed(self, name: str, *, timer: bool, session: int | None) -> dict[str, Any]:
        """As `open` for writing, and grants the session the topic in which messages for topic
        `name` wait: that of the delay levels, or of the timers. Its queues are the answer's
        `delayed`.

        What lies there is no more than a wish: schedule looks at it again before it delivers.
        """
        answer = self.open(name, write=True, session=session)
        system = TIMER_TOPIC if timer else SCHEDULE_TOPIC
        nums = _DELAYED[system]
        topic = self.table.find(system)
        if topic is None:
            topic = self._add(TopicConfig(system, nums, nums))
        if session is not None:
            self.table.grant(session, topic.index)
        return {**answer, "delayed": topic.slots[:nums]}

    def open_retry(self, group: str, *, dead: bool, session: int | None) -> dict[str, Any]:
        """Opens the topic of messages that come back to a group, or that it has given up, for
        writing; makes it with one queue (RocketMQ: retryQueueNums, DLQ_NUMS_PER_GROUP).
        """
        validate_group(group)
        name = dead_letter_topic(group) if dead else retry_topic(group)
        validate_topic(name)
        if self.table.find(name) is None:
            self._add(TopicConfig(name, 1, 1))
        return self.open(name, write=True, session=session)

    def open(self, name: str, *, write: bool, session: int | None) -> dict[str, Any]:
        """The queues of a topic, which is made if it does not exist and the settings allow it;
        grants writing to the session with the index `session`.
        """
        validate_topic(name)
        if write and (name in UNSENDABLE_TOPICS or name in _DELAYED):
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
                raise Refused(PutMessageStatus.MESSAGE_ILLEGAL, why)
            queues = self.settings.default_topic_queue_nums
            topic = self._add(TopicConfig(name, queues, queues))
        if not topic.perm & (_WRITE if write else _READ):
            why = f"topic {name} may not be {'written' if write else 'read'} (perm {topic.perm})"
            raise Refused(PutMessageStatus.MESSAGE_ILLEGAL, why)
        if write and session is not None:
            self.table.grant(session, topic.index)
        nums = topic.write_queue_nums if write else topic.read_queue_nums
        return {"ok": True, "index": topic.index, "slots": topic.slots[:nums]}

    def open_system(self, name: str, queues: int) -> Topic:
        """A topic that the store needs itself, made if it is not there."""
        return self.table.find(name) or self._add(TopicConfig(name, queues, queues))

    def create(self, name: str, queues: int) -> dict[str, Any]:
        """Makes a topic with `queues` queues (0: as many as the settings say) and saves it."""
        validate_topic(name)
        queues = queues or self.settings.default_topic_queue_nums
        if not 1 <= queues <= self.settings.max_queues:
            raise Refused(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"{queues} queues: 1 to {self.settings.max_queues}",
            )
        topic = self.table.find(name)
        if topic is not None:
            if topic.write_queue_nums != queues:
                why = f"topic {name} exists with {topic.write_queue_nums} queues"
                raise Refused(PutMessageStatus.MESSAGE_ILLEGAL, why)
        else:
            self._add(TopicConfig(name, queues, queues))
            self.save()
        return {"ok": True}

    def _add(self, config: TopicConfig) -> Topic:
        topic = self.table.add_topic(
            config.topic_name,
            write_nums=config.write_queue_nums,
            read_nums=config.read_queue_nums,
            perm=config.perm,
        )
        self.configs[config.topic_name] = config
        self.unsaved_since = self.unsaved_since or time.monotonic()
        if config.topic_name in _DELAYED:
            self.watch_delayed()
        self.count_word.store(self.table.topic_count)
        self.count_word.wake()
        return topic

    def page(self, after: int) -> dict[str, Any]:
        """Up to 200 topics from entry `after` on; `next` is where to go on, -1 at the end."""
        count = self.table.topic_count
        page = [self.table.topic(i) for i in range(after, min(after + _PAGE_TOPICS, count))]
        found = [
            {
                "topic": t.name,
                "perm": t.perm,
                "write_queues": t.write_queue_nums,
                "read_queues": t.read_queue_nums,
                "first_slot": t.slots[0],
            }
            for t in page
        ]
        return {
            "ok": True,
            "topics": found,
            "next": after + len(page) if after + len(page) < count else -1,
        }

    def due_in(self) -> float:
        """Seconds until a change must be saved; not positive once it is due."""
        return self.unsaved_since + self.save_delay_s - time.monotonic()

    def save(self) -> None:
        """Replaces topics.json. With many topics a save takes long, so the next one waits in
        proportion.
        """
        began = time.monotonic()
        self.version = self.version.next(int(time.time() * 1000))
        try:
            topics_json.save(self.path, topics_json.TopicTable(self.configs, self.version))
        except OSError as error:
            self.logger.error("cannot save topics.json; trying again", error=str(error))
            self.unsaved_since = time.monotonic() + TICK_S
            return
        self.unsaved_since = 0.0
        self.save_delay_s = max(_SAVE_DELAY_S, 5 * (time.monotonic() - began))
