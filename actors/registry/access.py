"""Who a client is, and what it may do: the user at the other end of a connection (SO_PEERCRED).

The store's own user and root own the store: they may do everything. Members of `socket_group` may
send and consume. Members of `admin_group` may also alter topics, groups and offsets. With
`acl_enable` off everybody who may connect may do so.
"""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct

import msgspec

from ...conf.settings import Settings
from ...shm.protocol.admin_requests import Forbid
from ...shm.protocol.changes import Change
from ...shm.protocol.pops import SetMode
from ...shm.protocol.requests import (
    Alter,
    AnyRequest,
    Clean,
    Create,
    Delete,
    DeleteGroup,
    Reset,
    SetGroup,
)
from .refusals import illegal

_ALTERING = (Create, Alter, Delete, Reset, SetGroup, SetMode, Forbid, DeleteGroup, Clean)


class Peer(msgspec.Struct, frozen=True):
    """A client's user. `allowed`: it may use the store. `owner`: it is root or the store's user.
    `admin`: it may alter topics, groups and offsets.
    """

    uid: int
    allowed: bool
    owner: bool
    admin: bool


class Access:
    """The settings that say who may do what. Raises KeyError for a group that this machine does not
    know.
    """

    def __init__(self, settings: Settings) -> None:
        self._everybody = not settings.acl_enable
        self._users = _Group(settings.socket_group)
        self._admins = _Group(settings.admin_group)
        self._admin_group = settings.admin_group

    def peer(self, connection: socket.socket) -> Peer:
        """The user at the other end of the connection."""
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, gid = struct.unpack("iII", data)
        if uid in (0, os.getuid()):
            return Peer(uid, allowed=True, owner=True, admin=True)
        admin = self._admins.has(uid, gid)
        allowed = admin or self._users.has(uid, gid)
        return Peer(uid, allowed=allowed, owner=False, admin=admin or self._everybody)

    def check(self, peer: Peer, request: AnyRequest, *, own_group: str = "") -> None:
        """Raises Refused for a request that alters topics, groups or offsets, if the user may not.
        A member of a consumer group may set the offsets of its `own_group`. Owners alone may change
        the processes of the store, whatever `acl_enable` says.
        """
        if isinstance(request, Change) and not peer.owner:
            raise illegal(
                f"user {peer.uid} may not change the store's processes: the store's user and root "
                "may"
            )
        if peer.admin or not isinstance(request, _ALTERING):
            return
        if isinstance(request, Reset) and own_group and request.group == own_group:
            return
        group = f", and members of group {self._admin_group} (admin_group)"
        who = "the store's user and root" + (group if self._admin_group else "")
        raise illegal(
            f"user {peer.uid} may not alter topics, groups or offsets: {who} may; "
            "set admin_group, or switch acl_enable off"
        )


class _Group:
    """A group of users; the group "" has no members."""

    def __init__(self, name: str) -> None:
        found = grp.getgrnam(name) if name else None
        self._members = found.gr_mem if found else []
        self._gid = found.gr_gid if found else -1

    def has(self, uid: int, gid: int) -> bool:
        """Whether a process of this user and group is in the group."""
        if gid == self._gid:
            return True
        try:
            return pwd.getpwuid(uid).pw_name in self._members if self._members else False
        except KeyError:
            return False
