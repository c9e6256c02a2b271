"""The topics that the store makes for itself: for delayed messages, for transactions, for replies,
and for a consumer group's retries and dead letters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...shm.protocol.answer import Answer
from ...shm.protocol.answers import (
    Opened,
    OpenedDelayed,
    OpenedReplies,
    OpenedTransaction,
)
from ...shm.protocol.requests import (
    Alter,
    AskTopic,
    AskTopics,
    Create,
    Delete,
    Open,
    OpenDelayed,
    OpenReplies,
    OpenRetry,
    OpenTransaction,
    TopicRequest,
)
from ...store.config.topics import TopicConfig
from ...store.names import (
    DEFAULT_CLUSTER,
    REPLIES_TOPIC,
    REPLY_TOPIC_SUFFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_END_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_TOPICS,
    dead_letter_topic,
    retry_topic,
    validate_group,
    validate_topic,
)
from ...store.record.requests import REPLY_QUEUES
from ...store.topics.topic_table import Topic
from ..actor import World
from .topics import WRITE, Topics, changed

#: The topics of transactions whose messages a process awaits.
_AWAITED: Final = (TRANS_HALF_TOPIC, TRANS_END_TOPIC)


class SystemTopics(Topics):
    """All topics, those of the store itself included."""

    def __init__(self, world: World, logger: Any, beat: Callable[[], None]) -> None:
        # The topics of delayed messages, and how many queues each needs: one for each level.
        levels = len(world.settings.message_delay_level)
        self.delayed = {SCHEDULE_TOPIC: levels, TIMER_TOPIC: 1}
        super().__init__(world, logger, beat)
        self._grow_delayed()
        self.watch_own()

    def serve(self, session: int | None, request: TopicRequest) -> Answer:
        """Answers a client whose session has the index `session`. Raises Refused, IllegalMessage,
        TableFull.
        """
        match request:
            case Open():
                return self.open(request, session)
            case OpenDelayed():
                return self.open_delayed(request, session)
            case OpenTransaction():
                return self.open_transaction(request, session)
            case OpenRetry():
                return self.open_retry(request, session)
            case OpenReplies():
                return self.open_replies(session)
            case Create():
                return self.create(request)
            case Alter():
                return self.alter(request)
            case Delete():
                return self.delete(request)
            case AskTopic():
                return self.topic(request)
            case AskTopics():
                return self.page(request)

    def watch_own(self) -> None:
        """Makes reput wake the processes that sleep on arrival words: `schedule` on those of the
        delayed messages' queues, `transactions` on those of halves and decisions.
        """
        for name in (*self.delayed, *_AWAITED):
            topic = self.table.find(name)
            for slot in topic.slots if topic is not None else ():
                self.control.watch(slot)

    def open_delayed(self, request: OpenDelayed, session: int | None) -> OpenedDelayed:
        """Opens a topic for writing, together with a topic of delayed messages: that of the delay
        levels, or that of the timers.

        A client can write any destination into a delayed message. Schedule therefore checks the
        destination again before it delivers the message.
        """
        opened = self.open(Open(request.topic, write=True), session)
        system = TIMER_TOPIC if request.timer else SCHEDULE_TOPIC
        topic = self.open_system(system, self.delayed[system])
        if session is not None:
            self.table.grant(session, topic.index)
        return OpenedDelayed(index=opened.index, slots=opened.slots, delayed=topic.slots)

    def open_transaction(self, request: OpenTransaction, session: int | None) -> OpenedTransaction:
        """Opens a topic for writing, if one is named, and the topics of transactions.

        A client can write anything into halves and decisions. The process `transactions` checks
        both before it moves a message.
        """
        opened = Opened(index=-1, slots=())
        if request.topic:
            opened = self.open(Open(request.topic, write=True), session)
        made = {name: self.open_system(name, 1) for name in TRANS_TOPICS}
        half, decisions = made[TRANS_HALF_TOPIC], made[TRANS_END_TOPIC]
        if session is not None:
            self.table.grant(session, half.index)
            self.table.grant(session, decisions.index)
        return OpenedTransaction(
            index=opened.index, slots=opened.slots, half=half.slots, decisions=decisions.slots
        )

    def open_retry(self, request: OpenRetry, session: int | None) -> Opened:
        """Opens the retry topic of a group, or its dead-letter topic, for writing. A new one gets
        one queue (RocketMQ: retryQueueNums, DLQ_NUMS_PER_GROUP).
        """
        group = request.group
        validate_group(group)
        name = dead_letter_topic(group) if request.dead else retry_topic(group)
        validate_topic(name)
        self.open_system(name, 1)
        return self.open(Open(name, write=True), session)

    def open_replies(self, session: int | None) -> OpenedReplies:
        """Opens the topic of replies for writing. Requests must name a cluster: a replier of
        RocketMQ's sends its reply to `<cluster>_REPLY_TOPIC`, which a broker makes in each store
        that it serves. A store without such a topic gets that of RocketMQ's default cluster.
        """
        topic = self._replies()
        if session is not None:
            self.table.grant(session, topic.index)
        names = [name for name in self.file.configs if name.endswith(REPLY_TOPIC_SUFFIX)]
        found = [one for one in map(self.table.find, names) if one is not None]
        open_ones = [one for one in found if one.perm & WRITE and one.write_queue_nums]
        newest = max(open_ones, key=lambda one: one.index, default=None)
        if newest is None:
            newest = self.open_system(DEFAULT_CLUSTER + REPLY_TOPIC_SUFFIX, 1)
        cluster = newest.name.removesuffix(REPLY_TOPIC_SUFFIX)
        return OpenedReplies(slots=topic.slots[: topic.write_queue_nums], cluster=cluster)

    def _replies(self) -> Topic:
        """The topic of replies, with all its queues: whoever replies finds a requester's queue by
        their number. After a power cut a topic that was just made may come back with fewer.
        """
        queues = min(REPLY_QUEUES, self.settings.max_queues)
        topic = self.open_system(REPLIES_TOPIC, queues)
        if topic.write_queue_nums < queues:
            config = self.file.configs[REPLIES_TOPIC]
            self._apply(topic, changed(config, queues, queues, None))
            topic = self.open_system(REPLIES_TOPIC, queues)
        return topic

    def open_system(self, name: str, queues: int) -> Topic:
        """The topic `name` of the store itself. Makes it with `queues` queues if it is missing."""
        return self.table.find(name) or self._add(TopicConfig(name, queues, queues))

    def _grow_delayed(self) -> None:
        """Gives the topics of delayed messages the queues that they need, before the schedule
        process opens them. The setting may have more levels than before; RocketMQ makes 18 queues,
        whatever its setting says.
        """
        for name, queues in self.delayed.items():
            topic = self.table.find(name)
            if topic is not None and topic.write_queue_nums < queues:
                self._apply(topic, changed(self.file.configs[name], queues, queues, None))

    def _add(self, config: TopicConfig) -> Topic:
        topic = super()._add(config)
        if config.topic_name in self.delayed or config.topic_name in _AWAITED:
            self.watch_own()
        return topic
