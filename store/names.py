"""Names of topics and consumer groups.

A topic's name becomes a folder below `consumequeue/` and a field of every record. This module turns
a name from outside into bytes that are safe as both. The rule is RocketMQ's (`TopicValidator`,
`Validators`): `[%|a-zA-Z0-9_-]`, at most 127 bytes, 255 for names that start with `%RETRY%`. Dots
and slashes are not allowed, so a name can be neither `..` nor a path.
"""

from __future__ import annotations

import re
from typing import Final

from .errors import IllegalMessage
from .status import PutMessageStatus

MAX_NAME_BYTES: Final = 127
MAX_RETRY_NAME_BYTES: Final = 255
ALLOWED: Final = "letters a-z and A-Z, digits, and the characters % | _ -"

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
#: Light queues: more queues of a record of another topic (`MixAll.LMQ_PREFIX`).
LMQ_PREFIX: Final = "%LMQ%"
SYSTEM_PREFIX: Final = "rmq_sys_"

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
#: The topic of messages that are delayed to any time (RocketMQ 5, `TimerMessageStore.TIMER_TOPIC`).
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
TRANS_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANS_OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
#: The topic of the decisions about transactions. It is ours: to RocketMQ it is like any other.
TRANS_END_TOPIC: Final = "rmq_sys_silomq_trans_end"
#: The group whose offsets say how far halves and op records of transactions are dealt with.
TRANS_GROUP: Final = "CID_RMQ_SYS_TRANS"
#: The topics of transactions. Each has one queue.
TRANS_TOPICS: Final = (
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_END_TOPIC,
)
#: The topic of replies that go to or come from a client of the store. It is ours, too.
REPLIES_TOPIC: Final = "rmq_sys_silomq_replies"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
AUTO_CREATE_TOPIC: Final = "TBW102"
#: Behind a cluster's name: the topic of replies to its producers (`MixAll.REPLY_TOPIC_POSTFIX`).
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"
#: RocketMQ's brokerClusterName.
DEFAULT_CLUSTER: Final = "DefaultCluster"

#: Topics that RocketMQ's broker creates and reserves (`TopicValidator.SYSTEM_TOPIC_SET`).
SYSTEM_TOPICS: Final = frozenset(
    (
        SCHEDULE_TOPIC,
        TRANS_HALF_TOPIC,
        TRANS_OP_HALF_TOPIC,
        TRANS_CHECK_MAX_TIME_TOPIC,
        TRACE_TOPIC,
        SELF_TEST_TOPIC,
        BENCHMARK_TOPIC,
        OFFSET_MOVED_TOPIC,
        AUTO_CREATE_TOPIC,
    )
)
#: System topics that a client must not send to (`TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET`).
UNSENDABLE_TOPICS: Final = SYSTEM_TOPICS - {TRACE_TOPIC, BENCHMARK_TOPIC, AUTO_CREATE_TOPIC} | {
    TRANS_END_TOPIC,
    REPLIES_TOPIC,
}

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]*")

assert MAX_RETRY_NAME_BYTES <= 255, "a folder name of Linux has at most 255 bytes"
assert len(RETRY_PREFIX) + MAX_NAME_BYTES <= MAX_RETRY_NAME_BYTES, "each group has its retry topic"


def validate_topic(name: str) -> bytes:
    """The bytes of a topic's name, safe as a folder name and as a record's topic field.

    Raises IllegalMessage (MESSAGE_ILLEGAL) if the name is empty, too long, or holds a character
    that is not allowed.
    """
    limit = MAX_RETRY_NAME_BYTES if name.startswith(RETRY_PREFIX) else MAX_NAME_BYTES
    return _validate("topic", name, limit)


def validate_group(name: str) -> bytes:
    """The bytes of a consumer group's name: the characters of topics, at most 127 bytes.

    RocketMQ allows 255 (`Validators.checkGroup`). But each group has a `%RETRY%` topic, and 127
    bytes keep its name within the limit for topics. Raises IllegalMessage (MESSAGE_ILLEGAL) like
    `validate_topic`.
    """
    return _validate("group", name, MAX_NAME_BYTES)


def retry_topic(group: str) -> str:
    """The topic of messages that `group` failed to consume and will consume again
    (`MixAll.getRetryTopic`).
    """
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic of messages that `group` failed to consume for the last time
    (`MixAll.getDLQTopic`).
    """
    return DLQ_PREFIX + group


def is_light_queue(name: str) -> bool:
    """Whether the name is that of a light queue, a topic with one queue (`MixAll.isLmq`)."""
    return name.startswith(LMQ_PREFIX)


def allows_light_queues(topic: str) -> bool:
    """Whether messages of a topic may lie in light queues (`MixAll.topicAllowsLMQ`)."""
    return not topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX)) and topic != SCHEDULE_TOPIC


def is_system_topic(name: str) -> bool:
    """Whether RocketMQ reserves the name (`TopicValidator.isSystemTopic`)."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX)


def _validate(kind: str, name: str, limit: int) -> bytes:
    if not name:
        raise _illegal(f"the {kind} name is empty; allowed are 1 to {limit} of {ALLOWED}")
    match = _LEGAL.match(name)
    legal = match.end() if match else 0
    if legal != len(name):
        raise _illegal(
            f"the {kind} name {_shorten(name)} has {name[legal]!a} at position {legal};"
            f" allowed are {ALLOWED}"
        )
    if len(name) > limit:
        raise _illegal(
            f"the {kind} name {_shorten(name)} has {len(name)} bytes; at most {limit} are allowed"
            f" ({MAX_RETRY_NAME_BYTES} for topics that start with {RETRY_PREFIX})"
        )
    return name.encode("ascii")


def _illegal(why: str) -> IllegalMessage:
    return IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, why)


def _shorten(name: str) -> str:
    # ascii() also escapes the control characters of a hostile name, which logs would pass on.
    return ascii(name) if len(name) <= 40 else ascii(name[:40]) + "..."
