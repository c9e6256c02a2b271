"""`StoreLink`: the broker's session with the store, and a new one after the store was restarted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ...client._bell import Bell
from ...client.lookup.open_store import OpenStore
from ...client.session import Connection
from ...shm.protocol.answer import Answer
from ...shm.protocol.request import Request
from ...store.errors import IllegalMessage, StoreError
from ...store.status import PutMessageStatus
from ...store.topics.topic_table import Topic
from ..loop._loop import Loop
from ..loop.tasks import Thread

Answered = TypeVar("Answered", bound=Answer)


#: How often a broker looks for a store that does not run yet.
_AGAIN_S: Final = 0.05
#: A folder that is not there may be made by a store that starts just now: the longest wait for it.
_FOLDER_S: Final = 5.0
#: How long one try waits for a store that its service manager starts. Meanwhile a broker that is to
#: end cannot end.
_START_S: Final = 3.0
#: What a try to meet the store may end with. The next one may find it well.
_TROUBLES: Final = (StoreError, OSError)
#: So many queues are kept open for reading.
_QUEUES_KEPT: Final = 4096
#: So many requests wait for the registry at a time: peers may ask faster than it answers.
_MOST_ASKED: Final = 5_000


class StoreGone(StoreError):
    """The store does not run, or has ended this session."""


class StoreLink:
    """The session with the store in `folder`, with a ring of `ring_size` bytes (negative: the
    store's setting). `began` is called on the loop with each new session, `ended` when it is lost.
    """

    def __init__(self, loop: Loop, folder: str, ring_size: int, logger: Any) -> None:
        self._loop = loop
        self._folder = folder
        self._ring_size = ring_size
        self._logger = logger
        self._thread = Thread(loop, "silomq-broker-requests")
        self._connection: Connection | None = None
        self._store: OpenStore | None = None
        self._bell: Bell | None = None
        self._connecting = False
        self._trouble = ""  # why the last try failed
        self._asked = 0
        self.began: list[Callable[[Connection, OpenStore], None]] = []
        self.ended: list[Callable[[], None]] = []

    # -- the session

    def open(self, patience_s: float) -> None:
        """Opens the first session, before the loop runs. Waits so long for the store to start, and
        for its folder a few seconds only. Raises StoreError, OSError.
        """
        began = time.monotonic()
        while not self.is_up:
            try:
                self._adopt(*self._connect())
            except _TROUBLES:
                waited_s = time.monotonic() - began
                there = os.path.isdir(self._folder)
                if waited_s >= (patience_s if there else min(patience_s, _FOLDER_S)):
                    raise
                time.sleep(_AGAIN_S)

    def _connect(self) -> tuple[Connection, OpenStore]:
        connection = Connection(self._folder, self._ring_size, client="broker", start_s=_START_S)
        try:
            connection.own_bell()
            return connection, OpenStore(self._folder, connection, queues_kept=_QUEUES_KEPT)
        except BaseException:
            connection.close()
            raise

    def _adopt(self, connection: Connection, store: OpenStore) -> None:
        self._connection, self._store = connection, store
        self._bell = bell = connection.own_bell()
        self._loop.watch(bell.fileno(), self._rung)
        for call in self.began:
            call(connection, store)

    def _rung(self) -> None:
        """The store has rung: what it has brought is looked at in each turn of the loop."""
        if self._bell is not None and not self._bell.drain():
            self._lose()

    @property
    def bell(self) -> Bell:
        """The session's bell. Raises StoreGone."""
        if self._bell is None:
            raise StoreGone(f"the store at {self._folder} does not run")
        return self._bell

    @property
    def is_up(self) -> bool:
        """Whether there is a session."""
        return self._connection is not None

    @property
    def connection(self) -> Connection:
        """The session's connection. Raises StoreGone."""
        if self._connection is None:
            raise StoreGone(f"the store at {self._folder} does not run")
        return self._connection

    @property
    def store(self) -> OpenStore:
        """The store's files. Raises StoreGone."""
        if self._store is None:
            raise StoreGone(f"the store at {self._folder} does not run")
        return self._store

    def find(self, topic: str) -> Topic | None:
        """The topic of this name, None if there is none. Raises StoreGone."""
        return self.connection.table.find(topic)

    def check(self) -> None:
        """Looks whether the store still holds the session, and drops the session if not."""
        connection = self._connection
        if connection is not None and not connection.is_alive():
            self._lose()

    def _lose(self) -> None:
        self._logger.warning("the store is gone: its clients are told to try again")
        self._drop()

    def _drop(self) -> None:
        connection, store = self._connection, self._store
        if connection is None or store is None:
            return
        if self._bell is not None:
            self._loop.unwatch(self._bell.fileno())
        self._connection = self._store = self._bell = None
        for call in self.ended:
            call()
        store.close()
        connection.close()

    async def reconnect(self) -> None:
        """Opens a new session if there is none. Returns after one try, and at once while another
        is under way. The log says why there is none, once for each reason.
        """
        if self.is_up or self._connecting:
            return
        self._connecting = True
        try:
            found = await self._thread.run(self._connect)
        except _TROUBLES as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._logger.warning("cannot meet the store", error=self._trouble)
            return
        finally:
            self._connecting = False
        self._trouble = ""
        self._adopt(*found)
        self._logger.info("met the store again", session=found[0].session)

    # -- requests

    async def ask(self, request: Request[Answered]) -> Answered:
        """The registry's answer. Raises IllegalMessage when it refuses, or is too busy, and
        StoreGone.
        """
        connection = self.connection
        if self._asked >= _MOST_ASKED:
            raise IllegalMessage(
                PutMessageStatus.OS_PAGE_CACHE_BUSY,
                f"{self._asked} requests wait for the store's registry: try again",
            )
        self._asked += 1
        try:
            return await self._thread.run(lambda: connection.request(request))
        finally:
            self._asked -= 1

    async def ask_with(
        self, request: Request[Answered], take: Callable[[Answered, list[int]], None]
    ) -> None:
        """As `ask`, for an answer with descriptors: `take` gets both, in the thread, and closes
        none of them.
        """
        connection = self.connection

        def call() -> None:
            answer, fds = connection.ask(request)
            try:
                take(answer, fds)
            finally:
                connection.drop(fds)

        await self._thread.run(call)

    def end_requests(self) -> None:
        """Waits for requests that are under way. Later ones are never answered."""
        self._thread.end()

    def close(self) -> None:
        """Ends the session, after `end_requests`."""
        self._drop()
