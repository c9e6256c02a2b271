"""Refusals of requests: a status of RocketMQ's, and a sentence for the user."""

from __future__ import annotations

from ...store.status import PutMessageStatus


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
