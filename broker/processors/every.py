"""One of each processor: what serves the requests of clients. Tools have `broker/admin`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .accounts import AccountProcessor
from .assignments import AssignmentProcessor
from .calls import Processor
from .clients import ClientProcessor
from .look_ups import LookUpProcessor
from .offsets import OffsetProcessor
from .pop import PopProcessor
from .pop_acks import PopAckProcessor
from .pop_polling import PopPollingProcessor
from .reply import ReplyProcessor
from .send_back import SendBackProcessor
from .transactions import TransactionProcessor
from .users import UserProcessor

if TYPE_CHECKING:
    from ..access.gate import Gate
    from ..groups.relay import Relay
    from .parts import Parts
    from .pull import PullProcessor
    from .send import SendProcessor


def every_processor(
    parts: Parts,
    relay: Relay,
    gate: Gate | None,
    address: str,
    *,
    send: SendProcessor,
    pull: PullProcessor,
) -> Iterator[Processor]:
    """Makes those that are not made yet. `address` (HOST:PORT) is the one that clients are told."""
    send_back = SendBackProcessor(parts)
    pop = PopProcessor(parts, send_back)
    yield from (send, pull, send_back, pop)
    yield PopAckProcessor(parts)
    yield PopPollingProcessor(parts, pop)
    yield AssignmentProcessor(parts)
    yield TransactionProcessor(parts)
    yield OffsetProcessor(parts)
    yield LookUpProcessor(parts)
    yield ClientProcessor(parts)
    yield ReplyProcessor(parts, relay, send)
    yield AccountProcessor(parts, gate, address)
    yield UserProcessor(gate)
