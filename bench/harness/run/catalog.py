"""The targets that can be measured, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..targets.peers.catalog import peers
from ..targets.remoting import Remoting, SiloBroker
from ..targets.silomq import SiloMQ

if TYPE_CHECKING:
    from ..targets.target import Target


def targets(address: str = "") -> dict[str, Target]:
    """All of them. `address` is where the target "remoting" runs already, HOST:PORT."""
    found: list[Target] = [SiloMQ(), SiloBroker(), Remoting(address), *peers()]
    return {one.name: one for one in found}
