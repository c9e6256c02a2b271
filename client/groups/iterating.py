"""Iteration over what a member of a consumer group gets, for threads and for asyncio."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator

from ..consuming.message_view import MessageView
from ..errors import SessionLost, StoreClosed

#: Asleep, a member looks this often (s) whether a store that was killed still lives.
TICK_S = 15.0
_ASYNC_WAIT_S = 1.0
_AT_ONCE = 256


class Iterated:
    """The part of `GroupConsumer` that makes it an iterator, sync and async."""

    auto_ack: bool

    def _fetch(
        self, limit: int, timeout: float, max_bytes: int = sys.maxsize, *, hand_out: bool
    ) -> list[MessageView]:
        raise NotImplementedError

    def ack(self, messages: MessageView) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[MessageView]:
        """Every message, for ever; ends when the store stops. With `auto_ack` a message is
        acknowledged when the next one is asked for. Raises SessionLost: others have its queues.
        """
        while True:
            try:
                found = self._fetch(_AT_ONCE, TICK_S, hand_out=True)
            except SessionLost:
                raise
            except StoreClosed:
                return
            for message in found:
                yield message
                if self.auto_ack:
                    self.ack(message)

    async def __aiter__(self) -> AsyncIterator[MessageView]:
        """As iteration, for asyncio: waits in a thread, so that the loop goes on."""
        import asyncio  # only who uses it pays for it

        while True:
            try:
                found = self._fetch(_AT_ONCE, 0.0, hand_out=True) or await asyncio.to_thread(
                    self._fetch, _AT_ONCE, _ASYNC_WAIT_S, hand_out=True
                )
            except SessionLost:
                raise
            except StoreClosed:
                return
            for message in found:
                yield message
                if self.auto_ack:
                    self.ack(message)
