"""How a request is refused: with a status of RocketMQ's and one sentence."""

from __future__ import annotations

from ...store.status import PutMessageStatus


class Refused(Exception):
    """The request is answered with an error. The exception's text says why, and what is allowed."""

    def __init__(self, status: PutMessageStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def illegal(why: str) -> Refused:
    """The request makes no sense to this store."""
    return Refused(PutMessageStatus.MESSAGE_ILLEGAL, why)


def unavailable(why: str) -> Refused:
    """The store cannot do it now, or not for this client."""
    return Refused(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
