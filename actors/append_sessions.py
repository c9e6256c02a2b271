"""The sessions that append serves: their rings, their bells, and the mail that brings and ends
them.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
from typing import Any, Final

import msgspec

from ..shm import bell as session_bell
from ..shm import mail
from ..shm._memory import Mapping
from ..shm.bell import BellEnds
from ..shm.protocol.sessions import Attach, AttachBell, Detach, Detached
from ..shm.ring import DATA, RingClosed
from ..store.commitlog._append import Appender
from .actor import Session
from .descriptors import HOW_TO_RAISE

_MAIL: Final[msgspec.json.Decoder[Attach | AttachBell | Detach]] = msgspec.json.Decoder(
    Attach | AttachBell | Detach
)


class AppendSessions:
    """Sessions with a ring, by number. `poll` watches their eventfds, and `inbox` for mail."""

    def __init__(
        self, kernel: Appender, poll: select.epoll, inbox: socket.socket, logger: Any
    ) -> None:
        self.attached: dict[int, Session] = {}
        self._closing: set[int] = set()
        self._kernel = kernel
        self._poll = poll
        self._inbox = inbox
        self._logger = logger

    def attach(self, session: Session) -> None:
        """Serves a session. One that cannot be served ends, so that its client does not wait."""
        bell, session.client_bell = session.client_bell, None
        try:
            ring = Mapping(session.ring, 0, DATA + session.capacity)
            self._poll.register(session.bell, select.EPOLLIN | select.EPOLLET)
        except OSError as error:
            self._logger.error(
                "cannot map a session's ring: it ends", session=session.number, error=str(error)
            )
            mail.close_all([session.ring, session.bell])
            if bell is not None:
                bell.close()
            self._report(session.number)
            return
        index = session.index
        self._kernel.attach(index, ring, session.capacity, index, session.uid)
        self.attached[session.number] = session
        if bell is not None:
            self._attach_bell(session, bell)
        if session.closing:
            self._closing.add(session.number)

    def _attach_bell(self, session: Session, bell: BellEnds) -> None:
        """Rings the bell of a session from now on. It replaces the one that a killed registry had
        made. The session ends if the bell's page cannot be mapped.
        """
        try:
            page = Mapping(bell.page, 0, session_bell.SIZE, writable=False)
        except OSError as error:
            self._logger.error(
                "cannot map a session's bell: it ends", session=session.number, error=str(error)
            )
            bell.close()
            self.detach(session.number)
            return
        os.close(bell.page)
        bell.page = -1
        self._kernel.attach_bell(session.index, page, bell.store)
        if session.client_bell is not None:
            session.client_bell.close()
        session.client_bell = bell

    def read_mail(self) -> None:
        """Reads all mail that has come."""
        while True:
            try:
                message, fds = mail.receive(self._inbox, _MAIL)
            except BlockingIOError:
                return
            except mail.DescriptorsLost as lost:
                self._cannot_serve(lost.message)
                continue
            match message:
                case None:
                    return
                case Attach():
                    self._take(message, fds)
                case AttachBell():
                    self._take_bell(message, fds)
                case Detach():
                    mail.close_all(fds)
                    self._let_go(message.session)

    def _take(self, message: Attach, fds: list[int]) -> None:
        """Serves a new session. Mail that a killed append did not read may speak of a session that
        this process inherited with the fork: that one is in `attached` already.
        """
        if message.session in self.attached or len(fds) != 2:
            mail.close_all(fds)
            return
        ring, bell = fds
        self.attach(
            Session(message.session, message.index, ring, message.capacity, bell, -1, message.uid)
        )

    def _take_bell(self, message: AttachBell, fds: list[int]) -> None:
        session = self.attached.get(message.session)
        if session is None:
            mail.close_all(fds)
        else:
            self._attach_bell(session, BellEnds(*fds))

    def _cannot_serve(self, message: object) -> None:
        """Ends a session whose descriptors did not arrive, for want of descriptors here."""
        assert isinstance(message, Attach | AttachBell), "no other mail brings descriptors"
        known = message.session in self.attached
        if isinstance(message, Attach) and known:
            return
        self._logger.error(
            "no descriptors for a session: it ends", session=message.session, advice=HOW_TO_RAISE
        )
        if known:
            self.detach(message.session)
        else:
            self._report(message.session)

    def _let_go(self, number: int) -> None:
        """Marks a session whose client is gone: it is detached once its ring is empty."""
        if number in self.attached:
            self._closing.add(number)
        else:
            self._report(number)

    def finish_closing(self) -> None:
        """Detaches the sessions whose client is gone and whose messages are all appended."""
        drained = self._kernel.drained
        for number in [n for n in self._closing if drained(self.attached[n].index)]:
            self.detach(number)

    def detach(self, number: int, why: RingClosed = RingClosed.OPEN) -> None:
        """Serves a session no longer, and tells the supervisor."""
        session = self.attached.pop(number)
        self._closing.discard(number)
        self._kernel.detach(session.index, why)
        with contextlib.suppress(OSError):
            self._poll.unregister(session.bell)
        os.close(session.ring)
        os.close(session.bell)
        if session.client_bell is not None:
            session.client_bell.close()
        self._report(number)

    def _report(self, number: int) -> None:
        mail.post(self._inbox, Detached(number))

    def drop_bad(self, index: int) -> None:
        """Closes the session whose ring does not hold valid frames. Its client finds BAD_FRAME in
        the ring; other sessions are not affected.
        """
        number = next(n for n, s in self.attached.items() if s.index == index)
        self._logger.warning(
            "a producer's ring makes no sense: its session is closed", session=number
        )
        self.detach(number, RingClosed.BAD_FRAME)
