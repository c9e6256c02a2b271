"""The session bells (`shm/bell.py`): the registry makes them, and rings them for notices."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from ...shm import bell, mail
from ...shm._bells import Bells
from ...shm._memory import Mapping
from ...shm.bell import BellEnds, Reason
from ...shm.protocol.sessions import Belled
from ..actor import Session, World
from ..descriptors import HOW_TO_RAISE, WITH_BELL
from .quotas import Quotas
from .refusals import unavailable


class SessionBells:
    """The bells of those among `sessions` that have asked for one.

    The bells that the registry before this one had made are rung at once. Their client's sockets
    are with their clients only: a client that asks again gets a new bell.
    """

    def __init__(self, world: World, quotas: Quotas, sessions: MappingOf[int, Session]) -> None:
        self._table = world.table
        self._inbox = world.registry_mail[1]
        self._quotas = quotas
        self._sessions = sessions
        self._bells = Bells()
        for session in sessions.values():
            if session.client_bell is not None:
                self._attach(session.number, session.client_bell)

    def _attach(self, number: int, ends: BellEnds) -> None:
        """Rings a bell from now on. Its store's end belongs to `_bells` then. Raises OSError."""
        page = Mapping(ends.page, 0, bell.SIZE, writable=False)
        end, ends.store = ends.store, -1
        self._bells.attach(number, page, end)

    def ask(self, session: Session) -> tuple[int, int]:
        """The bell page and the client's socket of a session. The first request makes them. Raises
        Refused if descriptors are short.
        """
        ends = session.client_bell
        if ends is None or ends.client < 0:
            self._quotas.check_more("bell", WITH_BELL, self._sessions.values())
            try:
                ends = self._make(session.number)
            except OSError as problem:
                raise unavailable(
                    f"the store cannot make a bell now: {problem.strerror}; {HOW_TO_RAISE}"
                ) from problem
            self.end(session)
            self._attach(session.number, ends)
            session.client_bell = ends
        return ends.page, ends.client

    def _make(self, number: int) -> BellEnds:
        """A new bell, which the supervisor holds too. Raises OSError, and then leaves nothing."""
        ends = bell.create(number)
        try:
            mail.post(self._inbox, Belled(number), [ends.page, ends.store])
        except OSError:
            ends.close()
            raise
        return ends

    def end(self, session: Session) -> None:
        """Closes the bell of a session, if it has one."""
        ends, session.client_bell = session.client_bell, None
        if ends is not None:
            self._bells.detach(session.number)
            ends.close()

    def notify(self, number: int, index: int) -> None:
        """Changes the notice word of a session, and wakes its client."""
        self._table.notify(index)
        self._bells.ring_one(number, Reason.NOTICES)

    def ring_all(self) -> None:
        """Wakes all clients that sleep for notices: topics have changed."""
        self._bells.ring(Reason.NOTICES)
