"""The processors of what consumers do with messages but for pulling: sending back, and popping."""

from __future__ import annotations

from collections.abc import Iterator

from .assignments import AssignmentProcessor
from .calls import Processor
from .parts import Parts
from .pop import PopProcessor
from .pop_acks import PopAckProcessor
from .pop_polling import PopPollingProcessor
from .send_back import SendBackProcessor


def consuming(parts: Parts) -> Iterator[Processor]:
    """One of each."""
    send_back = SendBackProcessor(parts)
    pop = PopProcessor(parts, send_back)
    yield send_back
    yield pop
    yield PopAckProcessor(parts)
    yield PopPollingProcessor(parts, pop)
    yield AssignmentProcessor(parts)
