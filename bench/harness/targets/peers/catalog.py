"""The peers, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chronicle import Chronicle
from .kafka import Kafka
from .nats import Nats
from .redis import Redis
from .rocketmq_broker import Broker
from .rocketmq_store import RocketMQStore
from .sqlite import SQLite

if TYPE_CHECKING:
    from ..target import Target

#: Releases whose store is published with what it needs.
RELEASES = ("5.3.3", "4.9.8")


def peers() -> list[Target]:
    """All of them, installed or not."""
    stores: list[Target] = [RocketMQStore(release) for release in RELEASES]
    return [*stores, Broker(), Kafka(), Redis(), Nats(), Chronicle(), SQLite()]
