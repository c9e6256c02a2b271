"""Sends a message that a consumer could not process back to its group. It goes to the group's retry
topic with a delay that grows from try to try, and after the last try to its dead letters.
"""

from __future__ import annotations

import threading

from ...store.names import SCHEDULE_TOPIC, validate_group
from ...store.record.format import encode_record
from ...store.record.ids import Host
from ...store.record.properties import (
    CRC32,
    DELAY,
    MULTI_QUEUE_OFFSET,
    ORIGIN_MESSAGE_ID,
    REAL_QID,
    REAL_TOPIC,
    RETRY_TOPIC,
    WAIT,
    encode_properties,
)
from ..arguments import OWN, Own
from ..consuming.message_view import MessageView
from ..errors import NotHandedOut, StoreClosed
from ..producing._sender import send_encoded, session_of
from ..producing.message_properties import Delayed
from ..producing.producer import Producer
from ..producing.send_result import SendResult

#: The first retry has this delay level (10 s), each later one the next level.
FIRST_RETRY_LEVEL = 3
MAX_RECONSUME_TIMES = 16


def send_back(
    producer: Producer,
    message: MessageView,
    group: str,
    *,
    delay_level: int = 0,
    max_reconsume_times: int = MAX_RECONSUME_TIMES,
    timeout: float | Own | None = OWN,
) -> SendResult:
    """Stores `message` again for `group`, as RocketMQ's broker does on CONSUMER_SEND_MSG_BACK
    (`AbstractSendMessageProcessor.consumerSendMsgBack`).

    The new message comes in `%RETRY%group` after `delay_level` (0: level 3 plus the number of tries
    so far), with `reconsume_times` one higher. After `max_reconsume_times` tries, or with a
    negative `delay_level`, it goes to `%DLQ%group` at once. It keeps body, flag, sysFlag,
    bornTimestamp, bornHost, UNIQ_KEY and the other properties. RETRY_TOPIC and ORIGIN_MESSAGE_ID
    name the topic and the offset message id of the first message, however often it is sent back.

    Raises as `Producer.send`; IllegalMessage for a group name that is not allowed.
    """
    validate_group(group)
    dead = delay_level < 0 or message.reconsume_times >= max_reconsume_times
    properties = dict(message.properties)
    for name in (CRC32, MULTI_QUEUE_OFFSET):
        properties.pop(name, None)
    properties.setdefault(RETRY_TOPIC, message.topic)
    properties.setdefault(ORIGIN_MESSAGE_ID, message.offset_message_id)
    properties[WAIT] = "false"
    for name in (DELAY, REAL_TOPIC, REAL_QID):
        properties.pop(name, None)
    session = session_of(producer)
    topic = session.open_retry(group, dead=dead)
    where: str | Delayed = topic
    queue_id = 0
    if not dead:
        level = delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
        level = min(level, session.config.delay_levels)
        properties |= {REAL_TOPIC: topic, DELAY: str(level), REAL_QID: "0"}
        where, queue_id = Delayed(SCHEDULE_TOPIC, topic), level - 1
    config = session.config
    record = encode_record(
        topic=(topic if dead else SCHEDULE_TOPIC).encode(),
        body=message.raw_body,
        properties=encode_properties(properties),
        queue_id=queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=Host.unpack(config.store_host),
        reconsume_times=message.reconsume_times + 1,
        record_crc=config.append_crc,
        max_message_size=config.max_message_size,
    )
    return send_encoded(
        producer, where, queue_id, record, unique_key=message.message_id, timeout=timeout
    )


class Returns:
    """The messages that a member sends back to `group`, through a producer of its own, which is
    opened when it is first needed.
    """

    def __init__(self, store: str, group: str) -> None:
        self._store = store
        self._group = group
        self._opening = threading.Lock()
        self._closed = False
        self._producer: Producer | None = None

    def send_back(
        self, message: MessageView, delay_level: int, *, max_reconsume_times: int
    ) -> SendResult:
        """As the function `send_back`; StoreClosed after `close`."""
        with self._opening:
            if self._closed:
                raise StoreClosed("this consumer is closed")
            if self._producer is None:
                self._producer = Producer(self._store)
        return send_back(
            self._producer,
            message,
            self._group,
            delay_level=delay_level,
            max_reconsume_times=max_reconsume_times,
        )

    def close(self) -> None:
        """Closes the producer. May be called again."""
        with self._opening:
            self._closed = True
        if self._producer is not None:
            self._producer.close()


def not_handed_out(message: MessageView, *, has_queue: bool) -> NotHandedOut:
    """The error for a message that cannot be sent back."""
    topic, queue_id = message.queue
    what = f"message {message.queue_offset} of queue {queue_id} of {topic}"
    if has_queue:
        why = (
            "this consumer has not handed it out, or it is acknowledged already: only a message "
            "of poll, of an iteration or of a listener can be sent back, once, and before the next "
            "call acknowledges it"
        )
    else:
        why = (
            "its queue is not assigned to this consumer (any more): the member that has the queue "
            "gets the message if it was not acknowledged"
        )
    return NotHandedOut(f"{what} was not sent back: {why}")
