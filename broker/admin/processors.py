"""`Admin`: all that tools ask of a broker, by the subject that answers it."""

from __future__ import annotations

from ..groups.relay import Relay
from ..link.listings import Listings
from ..processors.calls import Handlers
from ..processors.in_turn import InTurn
from ..processors.parts import Parts
from .configuration import ConfigurationAdmin
from .connections import ConnectionAdmin
from .groups import GroupAdmin
from .offsets import OffsetAdmin
from .relays import RelayAdmin
from .runtime_info import RuntimeInfo
from .statistics import StatisticsAdmin
from .topics import TopicAdmin


class Admin:
    """One of each. `address` is the one that clients are told, HOST:PORT."""

    def __init__(self, parts: Parts, relay: Relay, address: str) -> None:
        listings = Listings(parts.link)
        self._statistics = parts.statistics
        self._turns = InTurn(parts.loop.call_soon)
        self._info = RuntimeInfo(parts, listings)
        self._all = (
            TopicAdmin(parts, listings, address),
            GroupAdmin(parts, listings),
            OffsetAdmin(parts, listings),
            StatisticsAdmin(parts, listings, address),
            ConnectionAdmin(parts),
            RelayAdmin(parts, relay),
            ConfigurationAdmin(parts, listings),
            self._info,
        )

    @property
    def handlers(self) -> Handlers:
        found: Handlers = {}
        for processor in self._all:
            found |= processor.handlers
        return self._turns.limited(found)

    def tick(self) -> None:
        """Has the statistics take a look. To be called once a second while there is a store."""
        self._statistics.tick(self._info.counted())
