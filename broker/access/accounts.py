"""The file of accounts, in the form of RocketMQ's `plain_acl.yml`.

RocketMQ reads a permission that it does not know as DENY, and ignores names that it does not know.
Here both are errors: a slip of the pen in such a file should not be found out by an outage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from ...store.errors import StoreError
from ...store.names import retry_topic
from .addresses import AddressPattern
from .permissions import Account, Perm
from .signatures import SigningKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: RocketMQ's rule for access keys and secrets.
_LEAST_CHARACTERS: Final = 7
#: Longer ones are a slip: what comes with a request is compared to them.
_MOST_CHARACTERS: Final = 255
#: A file with more bytes is not read.
_MOST_BYTES: Final = 4 << 20


class BadAccounts(StoreError):
    """A file of accounts that cannot be used: the text names file, account and field."""


class Unreadable(BadAccounts):
    """A file that cannot be read now. It may be readable later without a change of its own."""


class Accounts(msgspec.Struct, frozen=True):
    """The accounts by their access keys, and the addresses whose requests are not checked."""

    by_key: dict[str, Account]
    white: tuple[AddressPattern, ...] = ()


class _Form(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An account as the file has it."""

    access_key: str
    secret_key: str
    white_remote_address: str = ""
    admin: bool = False
    default_topic_perm: str = "DENY"
    default_group_perm: str = "DENY"
    topic_perms: list[str] = []
    group_perms: list[str] = []


class _File(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The file. RocketMQ's tools keep the `dataVersion`, which means nothing here."""

    global_white_remote_addresses: list[str] = []
    accounts: list[dict[str, Any]] = []
    data_version: Any = None


class _Loader(yaml.BaseLoader):
    """Reads every value as the text that stands there, so that a secret of digits stays one. It is
    not libyaml's, which is faster, and ends the process where lists are nested too deeply.
    """

    def construct_mapping(
        self,
        node: Any,
        deep: bool = False,  # noqa: FBT001, FBT002 - as in PyYAML
    ) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                why = "a name is no text"
            elif key.value in seen:
                why = f"the name {key.value[:60]!a} stands there twice"
            else:
                seen.add(key.value)
                continue
            raise yaml.constructor.ConstructorError(None, None, why, key.start_mark)
        return super().construct_mapping(node, deep)


def read_accounts(path: Path) -> Accounts:
    """The accounts in a file. Raises BadAccounts."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot read the accounts: {error.strerror} ({path})") from error
    if len(data) > _MOST_BYTES:
        raise BadAccounts(f"{path}: a file of accounts has at most {_MOST_BYTES >> 20} MiB")
    try:
        return parse_accounts(data)
    except ValueError as error:
        raise BadAccounts(f"{path}: {error}") from error


def parse_accounts(data: bytes) -> Accounts:
    """The accounts in the bytes of a file. Raises ValueError, which names account and field."""
    found = _convert(_without_empty(_load(data)), _File)
    white = tuple(
        _pattern(text, "globalWhiteRemoteAddresses") for text in found.global_white_remote_addresses
    )
    accounts: dict[str, Account] = {}
    for number, table in enumerate(found.accounts, 1):
        name = f"account {number}"
        if isinstance(table.get("accessKey"), str):
            name += f" ({table['accessKey'][:60]!a})"
        try:
            account = _account(_convert(_without_empty(table), _Form))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        if account.access_key in accounts:
            raise ValueError(f"{name}: an account before it has the same accessKey")
        accounts[account.access_key] = account
    if not (accounts or white):
        raise ValueError("it has no account: nobody could connect")
    return Accounts(accounts, white)


def _load(data: bytes) -> Any:
    try:
        return yaml.load(data, _Loader)  # noqa: S506 - it makes texts, lists and tables alone
    except yaml.MarkedYAMLError as error:
        # Its own text would show the line, in which a secret may stand.
        mark, why = error.problem_mark, error.problem
        line = "" if mark is None else f"line {mark.line + 1}: "
        if not isinstance(error, yaml.scanner.ScannerError | yaml.constructor.ConstructorError):
            why = "a value that begins with &, *, ! or a bracket needs quotes"
        raise ValueError(f"{line}it is no YAML: {why}") from None
    except Exception as error:  # noqa: BLE001 - PyYAML raises more than it says
        raise ValueError(f"it is no YAML: {type(error).__name__}") from None


def _without_empty(table: Any) -> Any:
    """A table without the names that have no value, as `whiteRemoteAddress:`."""
    if not isinstance(table, dict):
        return {} if table is None else table
    return {name: value for name, value in table.items() if value != ""}


def _convert(table: Any, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(table, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _account(form: _Form) -> Account:
    for field, value in (("accessKey", form.access_key), ("secretKey", form.secret_key)):
        if len(value) < _LEAST_CHARACTERS:
            raise ValueError(f"{field}: it needs at least {_LEAST_CHARACTERS} characters")
        if len(value) > _MOST_CHARACTERS or not value.isprintable():
            raise ValueError(f"{field}: it is no text of at most {_MOST_CHARACTERS} characters")
    perms: dict[str, Perm] = {}
    for field, entries, of in (
        ("topicPerms", form.topic_perms, str),
        ("groupPerms", form.group_perms, retry_topic),
    ):
        for name, perm in _entries(field, entries):
            resource = of(name)
            if resource in perms:
                raise ValueError(f"{field}: {name!a} has a permission already")
            perms[resource] = perm
    white = form.white_remote_address
    return Account(
        access_key=form.access_key,
        key=SigningKey(form.secret_key.encode()),
        admin=form.admin,
        white=_pattern(white, "whiteRemoteAddress") if white else None,
        default_topic=_perm(form.default_topic_perm, "defaultTopicPerm"),
        default_group=_perm(form.default_group_perm, "defaultGroupPerm"),
        perms=perms,
    )


def _entries(field: str, entries: list[str]) -> Iterator[tuple[str, Perm]]:
    for entry in entries:
        name, equals, perm = entry.partition("=")
        if not (equals and name.strip()):
            raise ValueError(f"{field}: {entry!a} is not NAME=PERMISSION")
        yield name.strip(), _perm(perm, f"{field}: {name.strip()!a}")


def _perm(text: str, field: str) -> Perm:
    try:
        return Perm.parse(text)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error


def _pattern(text: str, field: str) -> AddressPattern:
    try:
        return AddressPattern(text)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
