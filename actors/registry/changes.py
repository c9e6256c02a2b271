"""Passes a change of the store's processes on to the supervisor (`shm/protocol/changes.py`)."""

from __future__ import annotations

import socket

from ...conf.printable import printable
from ...shm import mail
from ...shm.control import ACTORS
from ...shm.protocol.answers import Changing
from ...shm.protocol.changes import Change
from ...shm.protocol.sessions import ChangeAsked
from .refusals import illegal

#: A longer name is not shown whole.
_SHOWN = 40


def ask(inbox: socket.socket, session: int, request: Change) -> tuple[Changing, tuple[int]]:
    """Asks the supervisor. The descriptor is the socket at which the client listens. Raises Refused
    for an actor that no store has, OSError.
    """
    if request.what == "actor" and request.actor not in ACTORS:
        name = printable(request.actor[:_SHOWN])
        raise illegal(f'there is no actor "{name}"; the actors are {", ".join(ACTORS)}')
    speaks, listens = mail.pair()
    with speaks, listens:
        asked = ChangeAsked(session, request.number, request.what, request.actor, request.trial_ms)
        mail.post(inbox, asked, [speaks.fileno()])
        return Changing(), (listens.detach(),)
