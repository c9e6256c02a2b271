"""`BellMail`: the session bells of reput and flush, and the mail that brings and ends them.

The two sleep on words of the control block, not on sockets. So the supervisor counts its mail in
the word `bell_mail`, and wakes the word on which they sleep.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

import msgspec

from ..shm import mail
from ..shm._bells import Bells
from ..shm._memory import Mapping
from ..shm.bell import SIZE
from ..shm.protocol.sessions import AttachBell, DetachBell
from .actor import World

_MAIL: Final[msgspec.json.Decoder[AttachBell | DetachBell]] = msgspec.json.Decoder(
    AttachBell | DetachBell
)


class BellMail:
    """The bells of the sessions that this process inherited, and of those that the mail in `inbox`
    tells of. Each is rung once when it comes.
    """

    def __init__(self, world: World, inbox: socket.socket) -> None:
        self.bells = Bells()
        #: Changes when the supervisor has sent mail. `seen` is its value before the last look.
        self.count = world.control.word("bell_mail")
        self.seen = self.count.load()
        self._inbox = inbox
        for session in world.sessions.values():
            bell = session.client_bell
            if bell is not None:
                self._attach(session.number, bell.page, bell.store)
        world.sessions.clear()
        self._receive()

    def read(self) -> None:
        """Reads the mail if there may be some. Raises OSError when this process cannot get another
        descriptor: its successor inherits the bell.
        """
        if self.count.load() != self.seen:
            self.seen = self.count.load()
            self._receive()

    def _receive(self) -> None:
        while True:
            try:
                message, fds = mail.receive(self._inbox, _MAIL)
            except BlockingIOError:
                return
            except mail.DescriptorsLost as lost:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from lost
            match message:
                case None:
                    return
                case AttachBell():
                    self._attach(message.session, *fds)
                case DetachBell():
                    self.bells.detach(message.session)

    def _attach(self, session: int, page: int, end: int) -> None:
        try:
            memory = Mapping(page, 0, SIZE, writable=False)
        finally:
            os.close(page)
        self.bells.attach(session, memory, end)
