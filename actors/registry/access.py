"""The check of a client's user: the store's own user, root, and members of `socket_group`."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct


class Access:
    """Allows the group `name` beside the store's user and root; "" allows no group. Raises KeyError
    for a group that this machine does not know.
    """

    def __init__(self, name: str) -> None:
        found = grp.getgrnam(name) if name else None
        self._members = found.gr_mem if found else []
        self._group = found.gr_gid if found else -1

    def allows(self, connection: socket.socket) -> bool:
        """Whether the user at the other end of the connection may use the store (SO_PEERCRED)."""
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, gid = struct.unpack("iII", data)
        if uid in (0, os.getuid()) or gid == self._group:
            return True
        if self._group < 0:
            return False
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            return False
        return user in self._members
