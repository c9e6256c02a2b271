"""Refusals of requests: a status of RocketMQ's, and a sentence for the user."""

from __future__ import annotations

from ...shm.protocol.answers import Error
from ...store.status import PutMessageStatus

_MOST_WHY = 4000  # characters: an error may quote a long text that the client has sent


class Refused(Exception):
    """A request is refused with a status. The exception's text says why, and what is allowed."""

    def __init__(self, status: PutMessageStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def illegal(why: str) -> Refused:
    """A refusal of a request that can never succeed as it is: MESSAGE_ILLEGAL."""
    return Refused(PutMessageStatus.MESSAGE_ILLEGAL, why)


def unavailable(why: str) -> Refused:
    """A refusal of a request that the store cannot serve now, or not for this client:
    SERVICE_NOT_AVAILABLE.
    """
    return Refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)


def error(status: PutMessageStatus, why: str) -> Error:
    """The answer to a refused request: a status, and why, cut off after 4,000 characters."""
    return Error(status=status.name, why=why if len(why) <= _MOST_WHY else why[:_MOST_WHY] + "...")
