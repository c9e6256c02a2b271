"""`Tools`: what every answer to RocketMQ's tools is made from."""

from __future__ import annotations

from ..link.listings import Listings
from ..processors.parts import Parts


class Tools:
    """`parts` are the broker's, `listings` read whole lists from the store."""

    def __init__(self, parts: Parts, listings: Listings) -> None:
        self._parts = parts
        self._listings = listings
