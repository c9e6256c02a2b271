"""`Gate`: what a broker asks before it serves a request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..loop.reasons import Reasons
from ..loop.tasks import Thread, start
from ._checked import CheckedFastPath
from .access import Access
from .accounts import read_forms

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...conf.broker_settings import BrokerSettings
    from ..loop._connection import Connection, FastPath
    from ..loop._loop import Loop
    from ..wire.command import Command
    from .access import Grant
    from .accounts import Form
    from .permissions import Denied


class Gate:
    """The accounts of a broker, kept as the file changes, and a log of what was refused."""

    def __init__(self, access: Access, loop: Loop, logger: Any) -> None:
        self._access = access
        self._refused = Reasons(logger, "requests refused")
        self._thread = Thread(loop, "accounts")

    @classmethod
    def of(cls, settings: BrokerSettings, loop: Loop, logger: Any) -> Gate | None:
        """The gate that the settings ask for, None if everybody may do everything. Raises
        BadAccounts.
        """
        if not settings.authenticates:
            return None
        access = Access(Path(settings.acl_file), logger, authorizes=settings.authorizes)
        return cls(access, loop, logger)

    @property
    def changed(self) -> list[Callable[[], None]]:
        """What is called when the accounts have changed."""
        return self._access.changed

    @property
    def path(self) -> Path:
        """The file of accounts."""
        return self._access.path

    @property
    def version(self) -> tuple[int, int]:
        """How often tools have changed the file, and when it was changed last (epoch ms)."""
        return self._access.version

    async def forms(self) -> list[Form]:
        """The accounts as the file has them, with their secrets. Raises BadAccounts."""
        return await self._thread.run(lambda: read_forms(self._access.path))

    async def edit(self, edit: Callable[[Path], None]) -> None:
        """Changes the file, and takes the accounts that it has then. Raises what `edit` does."""
        await self._thread.run(lambda: edit(self._access.path))
        await self._access.reread(self._thread)

    def before(self, fast: FastPath) -> FastPath:
        """A fast path behind the gate."""
        return CheckedFastPath(fast, self._access.allows)

    def check(self, request: Command, connection: Connection) -> Grant:
        """What the sender of a request may do. Raises Denied unless it may make the request."""
        return self._access.check(request, connection.host)

    def note(self, denied: Denied, connection: Connection) -> None:
        """Has the log say that a request was refused: its sender may not wait for an answer."""
        self._refused.add(str(denied), connection.peer)

    def tick(self) -> None:
        """Logs what was refused, and looks at the file."""
        self._refused.tell()
        start(self._access.reread(self._thread))

    def end(self) -> None:
        self._thread.end()
