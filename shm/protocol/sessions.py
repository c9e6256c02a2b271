"""Messages about sessions between the supervisor, the registry and append.

The supervisor holds a duplicate of every descriptor of every session, so that registry and append
can be replaced. All these messages go through the supervisor (`supervisor/broker.py`).

A session begins at the registry, and ends when append has appended what the client had published:

========  ==========  ==========  ============================================================
message   sent by     sent to     meaning
========  ==========  ==========  ============================================================
session   registry    supervisor  a client has a session; the session's descriptors come along
attach    supervisor  append      serve its ring; the ring's descriptors come along
closing   registry    supervisor  the client is gone
detach    supervisor  append      append what is left in its ring, then close the ring
detached  append      supervisor  nothing of the session is used any more
gone      supervisor  registry    its index and its grants are free again
========  ==========  ==========  ============================================================

`session` brings the connection and, when there is a ring, the ring and its bell. `attach` brings
the ring and the bell. For a session without a ring there is neither `attach` nor `detach`.
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


class Closing(SessionMail, frozen=True, tag="closing"):
    """The session's client is gone."""


class Detach(SessionMail, frozen=True, tag="detach"):
    """Append is to detach the session once everything in its ring is appended."""


class Detached(SessionMail, frozen=True, tag="detached"):
    """Append has detached the session, and uses nothing of it any more."""


class Gone(SessionMail, frozen=True, tag="gone"):
    """The session is over for all processes."""
