"""`Access`: decides by the accounts of a file whether a request may be served."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from .accounts import BadAccounts, Unreadable, read_accounts
from .addresses import address_of
from .needs import needs_of
from .permissions import Denied, Need, Perm
from .signatures import ACCESS_KEY, SIGNATURE, signed_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Buffer

    from ..loop.tasks import Thread
    from ..wire.command import Command
    from .accounts import Accounts
    from .permissions import Account

#: Of a request on a fast path: access key (None without one), code, topic and group.
_Kind: TypeAlias = tuple[bytes | None, int, bytes, bytes]

#: So many decisions are kept for the next request of their kind.
_MOST_KEPT: Final = 10_000
#: So many characters of an access key are told that nobody knows.
_MOST_TOLD: Final = 60


class Grant(msgspec.Struct, frozen=True):
    """What the sender of one request may do: all that its account may, or everything."""

    account: Account | None = None

    def demand(self, need: Need) -> None:
        """Raises Denied unless the sender has this permission."""
        if self.account is not None and not self.account.has(need):
            raise Denied(f"account {self.account.access_key!a} lacks {need}")

    def may_write(self, topic: str) -> bool:
        """Whether the sender may send messages to a topic."""
        return self.account is None or self.account.has(Need(topic, Perm.PUB))

    def demand_reading(self, topic: str) -> None:
        """Raises Denied unless the sender may read messages of a topic."""
        self.demand(Need(topic, Perm.SUB))

    def demand_writing(self, topic: str) -> None:
        """Raises Denied unless the sender may send messages to a topic."""
        self.demand(Need(topic, Perm.PUB))


EVERYTHING: Final = Grant()


class Access:
    """The accounts of the file at `path`. Without `authorizes` every account may do everything.
    Raises BadAccounts for a file that cannot be used.
    """

    def __init__(self, path: Path, logger: Any, *, authorizes: bool = True) -> None:
        self.path = path
        self._logger = logger
        self._authorizes = authorizes
        self._reading = False
        self._trouble = ""  # why the file could not be read
        #: Called when the accounts have changed.
        self.changed: list[Callable[[], None]] = []
        self._seen = _version_of(path)
        self._use(_read(path, self._seen))

    def _use(self, accounts: Accounts) -> None:
        by_key: dict[bytes | None, Account] = {
            name.encode(): one for name, one in accounts.by_key.items()
        }
        self._accounts, self._by_key = accounts, by_key
        #: Decisions on white addresses by host, and on what the fast path serves.
        self._white: dict[bytes, bool] = {}
        self._granted: dict[_Kind, bool] = {}
        if self._seen is not None and self._seen[0] & stat.S_IROTH:
            self._logger.warning("every user can read the accounts' secrets", file=str(self.path))

    @property
    def version(self) -> tuple[int, int]:
        """How often tools have changed the file, and when it was changed last (epoch ms)."""
        changed_ms = 0 if self._seen is None else self._seen[3] // 1_000_000
        return self._accounts.changes, changed_ms

    async def reread(self, thread: Thread) -> None:
        """Takes the file's accounts if it has changed. With an error the old ones stay; a file that
        could not be read is tried again. A thread reads them, because that takes long for many.
        """
        version = _version_of(self.path)
        if version == self._seen or self._reading:
            return
        self._reading = True
        try:
            accounts = await thread.run(lambda: _read(self.path, version))
        except BadAccounts as error:
            if not isinstance(error, Unreadable):
                self._seen = version
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._logger.error("the new accounts are not used", why=self._trouble)
            return
        finally:
            self._reading = False
        self._seen, self._trouble = version, ""
        self._use(accounts)
        for call in self.changed:
            call()
        self._logger.info("accounts read", file=str(self.path), accounts=len(accounts.by_key))

    # -- decisions

    def check(self, request: Command, host: bytes) -> Grant:
        """What the sender of a request at `host` (an address as records have it) may do. Raises
        Denied unless it may make the request, and BadBody.
        """
        if self._is_white(host):
            return EVERYTHING
        fields = request.fields
        account = self._account(fields)
        if account.white is not None and account.white.matches(address_of(host)):
            return EVERYTHING
        signed = signed_fields(fields, request.version)
        signature = fields.get(SIGNATURE, "").encode()
        if not account.key.has_signed(signed, request.body, signature):
            why = "its secret is another one, or the request was changed"
            raise Denied(f"the signature of account {account.access_key!a} is wrong: {why}")
        if not self._authorizes:
            return EVERYTHING
        grant = Grant(account)
        needs = needs_of(request.code, fields, request.body)
        if needs is None and not account.admin:
            why = f"is no administrator, as request {request.code} needs"
            raise Denied(f"account {account.access_key!a} {why}")
        for need in needs or ():
            grant.demand(need)
        return grant

    def allows(
        self, host: bytes, kind: _Kind, signature: bytes, signed: Buffer, body: Buffer
    ) -> bool:
        """Whether a request of a fast path may be served, whose sender has `signed` its fields and
        its body. False leaves the decision to `check`.
        """
        if self._is_white(host):
            return True
        account = self._by_key.get(kind[0])
        if account is None or not account.key.has_signed(signed, body, signature):
            return False
        if not self._authorizes:
            return True
        granted = self._granted.get(kind)
        if granted is None:
            granted = _is_granted(account, *kind[1:])
            if len(self._granted) >= _MOST_KEPT:
                self._granted.clear()
            self._granted[kind] = granted
        return granted

    def _is_white(self, host: bytes) -> bool:
        """Whether requests from an address are not checked."""
        if not self._accounts.white:
            return False
        found = self._white.get(host[:-4])
        if found is None:
            address = address_of(host)
            found = any(pattern.matches(address) for pattern in self._accounts.white)
            if len(self._white) >= _MOST_KEPT:
                self._white.clear()
            self._white[host[:-4]] = found
        return found

    def _account(self, fields: Mapping[str, str]) -> Account:
        name = fields.get(ACCESS_KEY)
        if not name:
            raise Denied("the request is not signed: it has no AccessKey")
        account = self._accounts.by_key.get(name)
        if account is None:
            raise Denied(f"there is no account {name[:_MOST_TOLD]!a}")
        return account


def _is_granted(account: Account, code: int, topic: bytes, group: bytes) -> bool:
    """Whether an account may send to a topic, or pull from it."""
    try:
        name = topic.decode()
        fields = {"topic": name, "b": name, "consumerGroup": group.decode()}
    except UnicodeDecodeError:
        return False
    needs = needs_of(code, fields, b"")
    return needs is not None and all(account.has(need) for need in needs)


def _read(path: Path, version: tuple[int, ...] | None) -> Accounts:
    """The accounts in a file, which has this version. Raises BadAccounts."""
    if version is not None and not (stat.S_ISREG(version[0]) or stat.S_ISDIR(version[0])):
        raise Unreadable(f"cannot read the accounts: it is no file, or would block ({path})")
    return read_accounts(path)


def _version_of(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does, its mode first; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
