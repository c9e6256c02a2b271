"""Messages about sessions between the supervisor, the registry, append, reput and flush.

The supervisor holds a duplicate of every descriptor of every session, so that these processes can
be replaced. All these messages go through the supervisor (`supervisor/broker.py`).

A session begins at the registry, and ends when append has appended what the client had published:

===========  ==========  ====================  ==================================================
message      sent by     sent to               meaning
===========  ==========  ====================  ==================================================
session      registry    supervisor            a client has a session; its descriptors come along
attach       supervisor  append                serve its ring; the ring's descriptors come along
bell         registry    supervisor            it has a bell; the bell's descriptors come along
attach bell  supervisor  append, reput, flush  ring this bell; its descriptors come along
closing      registry    supervisor            the client is gone
detach       supervisor  append                append what is left in its ring, then close it
detached     append      supervisor            nothing of the session is used any more
detach bell  supervisor  reput, flush          its bell is no longer rung
change       registry    supervisor            its client asks for a change of processes
gone         supervisor  registry              its index and its grants are free again
===========  ==========  ====================  ==================================================

`session` brings the connection and, when there is a ring, the ring and append's eventfd. `attach`
brings the ring and the eventfd. For a session without a ring there is neither `attach` nor
`detach`, and append does not get its bell. `bell` and `attach bell` bring the bell page and the
store's socket (`shm/bell.py`). A second bell of a session replaces the first one: a new registry
makes one if the registry before it was killed before the client had its answer.
"""

from __future__ import annotations

from msgspec import Struct


class SessionMail(Struct, frozen=True, tag_field="do", forbid_unknown_fields=True):
    """A message about the session with the number `session`."""

    session: int


class Began(SessionMail, frozen=True, tag="session"):
    """A client has a session: its index in the topic table, its ring's size in bytes or 0, and its
    user.
    """

    index: int
    capacity: int
    uid: int


class Attach(SessionMail, frozen=True, tag="attach"):
    """Append is to serve the session's ring. `uid` is its user."""

    index: int
    capacity: int
    uid: int


class Belled(SessionMail, frozen=True, tag="bell"):
    """A client has a bell."""


class AttachBell(SessionMail, frozen=True, tag="attach bell"):
    """The process is to ring the session's bell from now on."""


class Closing(SessionMail, frozen=True, tag="closing"):
    """The session's client is gone."""


class Detach(SessionMail, frozen=True, tag="detach"):
    """Append is to detach the session once everything in its ring is appended."""


class Detached(SessionMail, frozen=True, tag="detached"):
    """Append has detached the session, and uses nothing of it any more."""


class DetachBell(SessionMail, frozen=True, tag="detach bell"):
    """The process is to ring the session's bell no more."""


class ChangeAsked(SessionMail, frozen=True, tag="change"):
    """The session's client asks for a change (`changes.py`), and listens at the other end of the
    socket that comes along.
    """

    number: int
    what: str
    actor: str
    trial_ms: int


class Gone(SessionMail, frozen=True, tag="gone"):
    """The session is over for all processes."""
