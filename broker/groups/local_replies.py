"""`LocalReplies`: pushes replies of the store's clients to those on the network that have asked.

A client of the store that has consumed a request of a client on the network puts its reply into
queue 0 of rmq_sys_silomq_replies. While the broker has producers it follows that queue, and pushes
each reply to the requester (PUSH_REPLY_MESSAGE_TO_CLIENT). A reply is of use until its TTL is over,
and for 30 s at least. So long the broker keeps it for a requester that is not connected, and after
a restart it looks back. Then a requester may get a reply once more: it knows the request no longer,
and drops it.
"""

from __future__ import annotations

import struct
import time
from typing import Any, Final

from ...store.errors import StoreError
from ...store.names import AUTO_CREATE_TOPIC, REPLIES_TOPIC
from ...store.record.format import Record
from ...store.record.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from ...store.record.requests import REPLY_TO_CLIENT, ttl_ms
from ..link.reading import Reading
from ..link.store import StoreLink
from ..loop._connection import Connection
from ..loop._loop import Loop
from ..loop.tasks import start
from ..wire.codes import RequestCode
from ..wire.command import Command
from .consumers import Producers
from .holds import Holds
from .relay import Relay
from .stored_records import let_others_work, read_on

#: So many replies are looked through when it begins: the newest.
_MOST_BACK: Final = 4096
#: How often it looks whether it is still needed (s).
_LOOK_S: Final = 5.0
#: So many replies, and bytes of them, are kept for requesters that are not connected.
_MOST_KEPT: Final = 1000
_MOST_KEPT_BYTES: Final = 8 << 20
#: A reply is of use for so long at least (ms). Go's client gives its TTL in seconds, and a push in
#: vain harms nobody.
_LEAST_TTL_MS: Final = 30_000
_PUSH_TIME: Final = "PUSH_REPLY_TIME"
#: The name that replies of the store's clients have in the place of a producer group.
_GROUP: Final = "silomq"


class LocalReplies:
    """Pushes replies to the clients of `producers`, as messages of `topic`."""

    def __init__(
        self,
        loop: Loop,
        link: StoreLink,
        *,
        reading: Reading,
        holds: Holds,
        producers: Producers,
        relay: Relay,
        topic: str,
        logger: Any,
    ) -> None:
        self._loop = loop
        self._link = link
        self._reading = reading
        self._holds = holds
        self._producers = producers
        self._relay = relay
        self._topic = topic
        self._logger = logger
        self._runs = False
        self._place = 0
        self._kept: list[tuple[float, Record]] = []  # with the end of their use, epoch ms
        self._kept_bytes = 0

    def tick(self) -> None:
        """Begins when there are producers and replies. Looks for requesters of kept replies."""
        self._push_kept()
        if self._runs or not self._link.is_up or not self._producers.counts():
            return
        if self._link.find(REPLIES_TOPIC) is not None:
            self._runs = True
            start(self._run())

    async def _run(self) -> None:
        """Follows the queue until no producer is left, or the store has gone."""
        try:
            least, end = self._reading.bounds(REPLIES_TOPIC, 0)
            self._place = max(least, min(self._place, end), end - _MOST_BACK)
            while self._producers.counts():
                least, end = self._reading.bounds(REPLIES_TOPIC, 0)
                self._place = max(self._place, least)
                if self._place >= end:
                    until = time.monotonic() + _LOOK_S
                    await self._holds.wait(REPLIES_TOPIC, 0, end, until, None)
                    continue
                records, self._place = read_on(self._reading, REPLIES_TOPIC, self._place)
                self._push_kept()  # a requester that has come gets its first reply first
                for record in records:
                    self._push(record, useful_until_ms(record))
                await let_others_work(self._loop)
        except (StoreError, OSError) as error:
            if self._link.is_up:
                self._logger.warning("local replies are read anew", error=str(error))
        finally:
            self._runs = False

    def _push_kept(self) -> None:
        """Looks for the requesters of kept replies."""
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        for until_ms, record in kept:
            self._push(record, until_ms)

    def _push(self, record: Record, until_ms: float) -> None:
        """Pushes a reply, if it is of use; keeps it for a requester that is not connected."""
        client_id = record.properties.get(REPLY_TO_CLIENT)
        now_ms = time.time_ns() // 1_000_000
        if client_id is None or until_ms < now_ms:
            return
        connection = self._producers.find(client_id)
        if connection is None:
            self._keep(record, until_ms)
            return
        fields = self._fields(record, now_ms)
        command = Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields, record.body)
        self._tell(connection, command, record)

    def _keep(self, record: Record, until_ms: float) -> None:
        size = len(record.body) + len(record.properties_raw)
        if len(self._kept) >= _MOST_KEPT or self._kept_bytes + size > _MOST_KEPT_BYTES:
            return
        self._kept.append((until_ms, record))
        self._kept_bytes += size

    def _tell(self, connection: Connection, command: Command, record: Record) -> None:
        try:
            self._relay.tell(connection, command)
        except (ValueError, struct.error) as error:
            self._logger.warning(
                "a reply does not fit into a frame",
                offset=record.physical_offset, peer=connection.peer, error=str(error),
            )  # fmt: skip

    def _fields(self, record: Record, now_ms: int) -> dict[str, str]:
        """As the processor of replies makes them of a request (ReplyMessageRequestHeader)."""
        properties = record.properties_raw.decode("utf-8", "replace")
        if properties and not properties.endswith(PROPERTY_SEPARATOR):
            properties += PROPERTY_SEPARATOR
        properties += f"{_PUSH_TIME}{NAME_VALUE_SEPARATOR}{now_ms}{PROPERTY_SEPARATOR}"
        return {
            "producerGroup": _GROUP,
            "topic": self._topic,
            "defaultTopic": AUTO_CREATE_TOPIC,
            "defaultTopicQueueNums": "1",
            "queueId": str(record.queue_id),
            "sysFlag": str(record.sys_flag),
            "bornTimestamp": str(record.born_timestamp),
            "flag": str(record.flag),
            "properties": properties,
            "reconsumeTimes": str(record.reconsume_times),
            "unitMode": "false",
            "bornHost": str(record.born_host),
            "storeHost": str(record.store_host),
            "storeTimestamp": str(record.store_timestamp),
        }


def useful_until_ms(record: Record) -> int:
    """Until when a requester may wait for a reply (epoch ms)."""
    return record.store_timestamp + max(ttl_ms(record.properties), _LEAST_TTL_MS)
