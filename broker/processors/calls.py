"""What all processors share: a request with its connection, and the answers to what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from ...client.errors import StoreClosed
from ...store.errors import IllegalMessage, StoreError
from ...store.status import PutMessageStatus
from ..access.access import EVERYTHING, Grant
from ..access.gate import Gate
from ..access.permissions import Denied
from ..groups.heartbeats import BadBody
from ..link.store import StoreGone
from ..loop._connection import Connection
from ..loop.tasks import Waiter
from ..wire.codes import ResponseCode
from ..wire.command import Command
from ..wire.headers import BadHeader


class Call(msgspec.Struct):
    """A request, the connection by which it came, and what its sender may do, as `gate` says."""

    request: Command
    connection: Connection
    grant: Grant = EVERYTHING
    gate: Gate | None = None

    def check(self) -> None:
        """Raises Denied unless the sender may make the request now. It may have been held, and the
        accounts may have changed meanwhile.
        """
        if self.gate is not None:
            self.grant = self.gate.check(self.request, self.connection)


#: So many characters of what went wrong are told: a name from the network may be long.
_MOST_REMARK: Final = 1000

Handler: TypeAlias = Callable[[Call], Coroutine[Waiter[Any], None, Command]]
Handlers: TypeAlias = dict[int, Handler]


class Processor(Protocol):
    """What serves some requests."""

    @property
    def handlers(self) -> Handlers: ...


class Refused(Exception):
    """A request that is answered with an error: its code, and the remark that says why."""

    def __init__(self, code: ResponseCode, why: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.fields = fields or {}


#: RocketMQ's answers to the statuses of a put.
_CODES: Final = {
    PutMessageStatus.PUT_OK: ResponseCode.SUCCESS,
    PutMessageStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutMessageStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    PutMessageStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    PutMessageStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutMessageStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
    PutMessageStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
}


def code_of(status: int) -> ResponseCode:
    """RocketMQ's answer to a PutMessageStatus."""
    return _CODES.get(PutMessageStatus(status), ResponseCode.SYSTEM_ERROR)


def refusal(call: Call, error: Exception) -> Command | None:
    """The answer to a request that an error has ended. None for an error that is a defect. The log
    says what was denied, because the sender may not wait for an answer.
    """
    request = call.request
    why = str(error)[:_MOST_REMARK]
    if isinstance(error, Denied) and call.gate is not None:
        call.gate.note(error, call.connection)
    if isinstance(error, Refused):
        return request.answer(error.code, remark=why, fields=error.fields)
    if isinstance(error, Denied):
        return request.answer(ResponseCode.NO_PERMISSION, remark=why)
    if isinstance(error, IllegalMessage):
        return request.answer(code_of(error.status), remark=error.why[:_MOST_REMARK])
    if isinstance(error, StoreGone | StoreClosed):
        return request.answer(ResponseCode.SERVICE_NOT_AVAILABLE, remark=why)
    if isinstance(error, BadHeader | BadBody | StoreError | OSError):
        return request.answer(ResponseCode.SYSTEM_ERROR, remark=why)
    return None
