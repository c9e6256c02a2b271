"""Finds the queue to which the store itself sends a message. The registry makes a missing topic."""

from __future__ import annotations

import os
import socket
from typing import Final

import msgspec

from ..shm import mail
from ..shm.protocol.answers import (
    Done,
    Error,
    OpenedTransaction,
)
from ..shm.protocol.requests import Create, OpenTransaction
from ..store.disk.paths import SOCKET
from ..store.errors import IllegalMessage
from ..store.names import RETRY_PREFIX, TRANS_TOPICS, is_light_queue, validate_topic
from ..store.status import PutMessageStatus
from .actor import World

_PATIENCE_S = 2.0
_ANSWERS: Final[msgspec.json.Decoder[Done | OpenedTransaction | Error]] = msgspec.json.Decoder(
    Done | OpenedTransaction | Error
)


class NoTopic(Exception):
    """The topic of a waiting message is missing and cannot be made now. The text says why."""


class NoRegistry(NoTopic):
    """The registry does not answer. No topic can be made now."""


def find_slot(world: World, topic: str, queue_id: int) -> tuple[int, int]:
    """(slot, queue id) of the queue to deliver to.

    A topic that was deleted while the message waited is made again: the store has accepted the
    message and does not lose it. If the topic does not have the queue, the queue id is taken modulo
    the number of its queues. Raises NoTopic, and IllegalMessage for a name that is not a topic's.
    """
    found = world.table.find(topic)
    if found is None:
        _make(world, topic, queue_id)
        found = world.table.find(topic)
        if found is None:
            raise NoTopic(f"the registry made topic {topic}, which is not in the table")
    slot = world.table.slot(topic, queue_id)
    if slot >= 0 and not world.table.is_deleted(slot):
        return slot, queue_id
    if not found.slots:
        raise NoTopic(f"topic {topic} has no queues")
    queue_id %= len(found.slots)
    return found.slots[queue_id], queue_id


def _make(world: World, topic: str, queue_id: int) -> None:
    validate_topic(topic)
    single = topic.startswith(RETRY_PREFIX) or is_light_queue(topic)
    least = 1 if single else world.settings.default_topic_queue_nums
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as end:
            end.settimeout(_PATIENCE_S)
            end.connect(f"/proc/{os.getpid()}/fd/{world.folders.root.fd}/{SOCKET}")
            if topic in TRANS_TOPICS:
                mail.send(end, OpenTransaction(""))
            else:
                mail.send(end, Create(topic, max(least, queue_id + 1)))
            answer, fds = mail.receive(end, _ANSWERS)
    except (OSError, ValueError) as error:
        raise NoRegistry(f"the registry does not answer: {error}") from error
    mail.close_all(fds)
    if answer is None:
        raise NoRegistry("the registry hung up")
    if isinstance(answer, Error):
        why = f"topic {topic}: {answer.why}"
        if answer.status == PutMessageStatus.MESSAGE_ILLEGAL.name:
            raise IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, why)
        raise NoTopic(why)
