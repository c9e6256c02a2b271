"""`Parts`: what a broker is made of, as its processors use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...conf.broker_settings import BrokerSettings
from ..groups.consumers import Consumers, Producers
from ..groups.holds import Holds
from ..groups.pop_holds import PopHolds
from ..groups.queue_locks import QueueLocks
from ..link.pops import Pops
from ..link.progress import Progress
from ..link.reading import Reading
from ..link.sending import Sending
from ..link.store import StoreLink
from ..link.topics import Topics
from ..loop._loop import Loop
from ..statistics.statistics import Statistics
from .counts import Counts


class Parts(msgspec.Struct):
    """One of each. `topic_made` is called when a topic was made or changed, so that name servers
    learn of it.
    """

    settings: BrokerSettings
    loop: Loop
    link: StoreLink
    sending: Sending
    topics: Topics
    reading: Reading
    progress: Progress
    consumers: Consumers
    producers: Producers
    locks: QueueLocks
    holds: Holds
    pops: Pops
    pop_holds: PopHolds
    counts: Counts
    statistics: Statistics
    topic_made: Callable[[], None]
    logger: Any
