"""The topics that a producer's session has opened, and their routes."""

from __future__ import annotations

from ...shm.protocol.requests import Open, OpenDelayed, OpenReplies, OpenRetry, OpenTransaction
from ...store.errors import IllegalMessage, StoreError
from ...store.names import (
    REPLIES_TOPIC,
    TIMER_TOPIC,
    TRANS_END_TOPIC,
    TRANS_HALF_TOPIC,
    allows_light_queues,
    dead_letter_topic,
    retry_topic,
)
from ...store.record.properties import MULTI_DISPATCH
from ...store.status import PutMessageStatus
from .. import arguments
from ..session import Connection
from ._message import Route
from .message_properties import Delayed, LightQueues


class TopicRoutes:
    """The part of a `SendSession` that opens topics."""

    #: The error that every further call raises; None while the session is open.
    closed: StoreError | None
    #: Topic, or Delayed, -> Route. Valid for one connection, and until a refusal.
    routes: dict[str | Delayed, Route]
    #: The cluster that requests name, once the topic of replies was opened.
    cluster: str
    _link: Connection
    _light: set[str]  # light queues that unanswered messages may name

    def open_topic(self, topic: str | Delayed) -> Route:
        """Asks the store for the right to write to a topic, or to delay messages for it. The store
        makes the topic if it may. Raises IllegalMessage, StoreClosed.
        """
        if self.closed is not None:
            raise self.closed
        if isinstance(topic, Delayed) and topic.system in (TRANS_HALF_TOPIC, TRANS_END_TOPIC):
            opened = self._link.request(OpenTransaction(topic.topic))
            slots = opened.half if topic.system == TRANS_HALF_TOPIC else opened.decisions
            route = Route(topic.system, slots)
        elif isinstance(topic, Delayed) and topic.system == REPLIES_TOPIC:
            replies = self._link.request(OpenReplies())
            self.cluster = replies.cluster
            route = Route(topic.system, replies.slots)
        elif isinstance(topic, Delayed):
            timer = topic.system == TIMER_TOPIC
            answer = self._link.request(OpenDelayed(topic.topic, timer=timer))
            route = Route(topic.system, answer.delayed)
        else:
            name = arguments.text("topic", topic)
            route = Route(name, self._link.request(Open(name, write=True)).slots)
        self.routes[topic] = route
        return route

    def open_light_queues(self, topic: str | Delayed, light: LightQueues) -> bytes:
        """Opens the light queues of a message for a topic. Returns the property pair that gives
        append room for its offsets there. A delayed message has none: schedule puts it into the
        light queues when it delivers it. A message of a transaction may not name any: its half
        would lie there as well. A reply neither: its requester reads one queue. Raises
        IllegalMessage, StoreClosed.
        """
        if isinstance(topic, Delayed) and topic.system in (TRANS_HALF_TOPIC, REPLIES_TOPIC):
            what = "replies" if topic.system == REPLIES_TOPIC else "messages of transactions"
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"property {MULTI_DISPATCH}: {what} lie in no light queues",
            )
        goal = topic.topic if isinstance(topic, Delayed) else topic
        if not self._link.config.light:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"property {MULTI_DISPATCH}: the store puts no message into light queues, because "
                "enable_lmq and enable_multi_dispatch are not both on",
            )
        if not allows_light_queues(goal):
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"property {MULTI_DISPATCH}: messages of topic {goal} lie in no light queues",
            )
        for name in light.names:
            if name not in self.routes:
                self.open_topic(name)
        self._light.update(light.names)
        return b"" if isinstance(topic, Delayed) else light.pair

    def open_retry(self, group: str, *, dead: bool) -> str:
        """Opens the retry topic of a consumer group, or its dead-letter topic, and makes it if it
        is not there. Returns its name.
        """
        name = dead_letter_topic(group) if dead else retry_topic(group)
        if name not in self.routes:
            self.routes[name] = Route(name, self._link.request(OpenRetry(group, dead=dead)).slots)
        return name
