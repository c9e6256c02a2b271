"""`Status`: what `silo status` shows of a broker."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from ..shm import board
from ..shm.protocol import broker_status
from ..shm.protocol.broker_status import (
    BrokerStatus,
    ClosedConnections,
    Group,
    Member,
    NameServer,
    ProducerGroup,
    RefusedRequests,
    Requests,
    text,
)
from .processors.counts import UNKNOWN
from .wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .groups.consumers import ConsumerGroup
    from .loop._connection import Limits
    from .loop.reasons import Reasons
    from .processors.parts import Parts
    from .routes.registering import Registrar

#: Rates are those of so many of the last seconds: one look a second.
_WINDOW: Final = 10
#: Of groups, members and topics the first of these numbers is listed with which all fits.
_LISTED: Final = (256, 64, 16, 4, 0)
#: Refusals and name servers that are listed, and the characters of a reason.
_MOST_REFUSALS: Final = 64
_MOST_SERVERS: Final = 16
_MOST_WHY: Final = 100


class Status:
    """Tells what a broker has done. `listens` and `told` are its addresses, HOST:PORT."""

    def __init__(
        self,
        parts: Parts,
        *,
        limits: Limits,
        reasons: Reasons,
        registrar: Registrar,
        listens: str,
        told: str,
    ) -> None:
        self._parts = parts
        self._limits = limits
        self._reasons = reasons
        self._registrar = registrar
        self._listens = listens
        self._told = told
        self._started_ms = time.time_ns() // 1_000_000
        self._looks: deque[tuple[float, dict[int, int]]] = deque(maxlen=_WINDOW + 1)
        #: The groups as they were listed last, by the number that is listed, until they change.
        self._groups: dict[int, list[Group]] = {}
        parts.consumers.changed.append(self._groups.clear)

    def document(self) -> bytes:
        """The document for the broker's board. To be called about once a second."""
        requests, sent, pulled = self._parts.counts.totals()
        self._looks.append((time.monotonic(), requests))
        document = b""
        for listed in _LISTED:
            document = broker_status.encode(self._status(listed, sent, pulled))
            if len(document) <= board.MOST:
                break
        return document

    def _status(self, listed: int, sent: int, pulled: int) -> BrokerStatus:
        parts, settings = self._parts, self._parts.settings
        producers = parts.producers.counts()
        found, missed = parts.statistics.counted_reads()
        latencies = parts.statistics.latencies
        return BrokerStatus(
            name=settings.broker_name,
            cluster=settings.broker_cluster_name,
            pid=os.getpid(),
            listens=self._listens,
            told=self._told,
            started_ms=self._started_ms,
            written_ms=time.time_ns() // 1_000_000,
            connections=len(parts.loop.connections),
            bytes_in=self._limits.received,
            bytes_out=self._limits.sent,
            messages_sent=sent + parts.sending.messages,
            messages_pulled=pulled,
            held_pulls=parts.holds.count,
            requests=self._requests(),
            refused=self._refused(),
            closed=[
                ClosedConnections(text(why[:_MOST_WHY]), count)
                for why, count in self._reasons.total.items()
            ],
            group_count=len(parts.consumers),
            groups=self._listed(listed),
            producer_group_count=len(producers),
            producer_groups=[
                ProducerGroup(text(name), count)
                for name, count in itertools.islice(producers.items(), listed)
            ],
            name_servers=[
                NameServer(text(address), state, text(problem[:_MOST_WHY]))
                for address, state, problem in self._registrar.states()[:_MOST_SERVERS]
            ],
            pulls_found=found,
            pulls_missed=missed,
            put_ms_99=latencies.percentile(0.99),
            put_ms_longest=latencies.all.longest_ms,
            put_ms_sum=latencies.all.sum_ms,
            put_ms_below=latencies.below(),
        )

    def _listed(self, listed: int) -> list[Group]:
        if listed not in self._groups:
            self._groups[listed] = list(_groups(self._parts.consumers, listed))
        return self._groups[listed]

    def _requests(self) -> list[Requests]:
        """The requests of each kind, the most frequent ones first."""
        (began, before), (now, counts) = self._looks[0], self._looks[-1]
        seconds = now - began
        return [
            Requests(
                _request(code),
                count,
                round((count - before.get(code, 0)) / seconds, 1) if seconds > 0 else 0.0,
            )
            for code, count in sorted(counts.items(), key=lambda item: -item[1])
        ]

    def _refused(self) -> list[RefusedRequests]:
        found = sorted(self._parts.counts.refused.items(), key=lambda item: -item[1])
        return [
            RefusedRequests(_request(code), ResponseCode(answer).name, count)
            for (code, answer), count in found[:_MOST_REFUSALS]
        ]


def _request(code: int) -> str:
    return "others" if code == UNKNOWN else RequestCode(code).name


def _groups(groups: Iterable[ConsumerGroup], listed: int) -> Iterator[Group]:
    """So many groups, with so many members in all, and so many topics."""
    members_left = topics_left = listed
    for group in itertools.islice(groups, listed):
        members = [
            Member(text(one.client_id), text(one.language), one.connection.peer)
            for one in itertools.islice(group.clients.values(), members_left)
        ]
        topics = [text(topic) for topic in itertools.islice(group.subscriptions, topics_left)]
        members_left -= len(members)
        topics_left -= len(topics)
        yield Group(
            group=text(group.name),
            model=text(group.model),
            member_count=len(group.clients),
            members=members,
            topic_count=len(group.subscriptions),
            topics=topics,
        )
