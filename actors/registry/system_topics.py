"""The topics that the store itself needs: where messages wait, come back, and are given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...store.config.topics import TopicConfig
from ...store.delay.delays import LEVELS
from ...store.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    dead_letter_topic,
    retry_topic,
    validate_group,
    validate_topic,
)
from ...store.topics.topic_table import Topic
from ..actor import World
from .topics import Topics

# The topics in which messages wait for their time, and how many queues they have.
_DELAYED = {SCHEDULE_TOPIC: LEVELS, TIMER_TOPIC: 1}


class SystemTopics(Topics):
    """All topics, with those of the store's own."""

    def __init__(self, world: World, logger: Any, beat: Callable[[], None]) -> None:
        super().__init__(world, logger, beat)
        self.watch_delayed()

    def serve(self, session: int | None, request: dict[str, Any]) -> dict[str, Any]:
        """Answers a client whose session has the index `session`. Raises Refused, IllegalMessage,
        TableFull; KeyError, TypeError, ValueError for a request that makes no sense.
        """
        name = str(request.get("topic", ""))
        match request["do"]:
            case "open":
                return self.open(name, write=bool(request["write"]), session=session)
            case "open_delayed":
                return self.open_delayed(name, timer=bool(request["timer"]), session=session)
            case "open_retry":
                dead = bool(request["dead"])
                return self.open_retry(str(request["group"]), dead=dead, session=session)
            case "create":
                return self.create(name, int(request["queues"]))
            case "alter":
                return self.alter(name, dict(request["changes"]))
            case "delete":
                return self.delete(name)
            case "topic":
                return self.topic(name)
            case "topics":
                return self.page(int(request["after"]))
            case other:
                raise ValueError(f"unknown request {other!r}")

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

    def open_system(self, name: str, queues: int) -> Topic:
        """A topic that the store needs itself, made if it is not there."""
        return self.table.find(name) or self._add(TopicConfig(name, queues, queues))

    def _add(self, config: TopicConfig) -> Topic:
        topic = super()._add(config)
        if config.topic_name in _DELAYED:
            self.watch_delayed()
        return topic
