"""The file of accounts, in the form of RocketMQ's `plain_acl.yml`.

RocketMQ reads a permission that it does not know as DENY, and ignores names that it does not know.
Here both are errors: a slip of the pen in such a file should not be found out by an outage.
"""

from __future__ import annotations

import contextlib
import re
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
    #: How often RocketMQ's tools have changed the file (`dataVersion`).
    changes: int = 0


class Form(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
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
    """The file. RocketMQ's tools count their changes in `dataVersion`."""

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


def read_bytes(path: Path) -> bytes:
    """The bytes of a file of accounts. Raises BadAccounts."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot read the accounts: {error.strerror} ({path})") from error
    if len(data) > _MOST_BYTES:
        raise BadAccounts(f"{path}: a file of accounts has at most {_MOST_BYTES >> 20} MiB")
    return data


def read_accounts(path: Path) -> Accounts:
    """The accounts in a file. Raises BadAccounts."""
    data = read_bytes(path)
    try:
        return parse_accounts(data)
    except ValueError as error:
        raise BadAccounts(f"{path}: {error}") from error


def parse_accounts(data: bytes) -> Accounts:
    """The accounts in the bytes of a file. Raises ValueError for the first error, which names
    account and field.
    """
    return use(load_plain(data))


def use(plain: Any) -> Accounts:
    """The accounts in what a file says. Raises ValueError for the first error."""
    accounts, problems = _check(plain)
    if problems:
        raise ValueError(problems[0])
    return accounts


def read_forms(path: Path) -> list[Form]:
    """The accounts of a file as it has them, with their secrets. Raises BadAccounts."""
    data = read_bytes(path)
    try:
        plain = load_plain(data)
        use(plain)
        found = _convert(_without_empty(plain), _File).accounts
        return [_convert(_without_empty(table), Form) for table in found]
    except ValueError as error:
        raise BadAccounts(f"{path}: {error}") from error


def check_accounts(data: bytes) -> tuple[Accounts, list[str]]:
    """The accounts in the bytes of a file that have no error, and all errors, each with its account
    and its field. Raises ValueError for bytes that are no such file.
    """
    return _check(load_plain(data))


def _check(plain: Any) -> tuple[Accounts, list[str]]:
    found = _convert(_without_empty(plain), _File)
    problems: list[str] = []
    white: list[AddressPattern] = []
    for text in found.global_white_remote_addresses:
        with _noting(problems):
            white.append(_pattern(text, "globalWhiteRemoteAddresses"))
    accounts: dict[str, Account] = {}
    for number, table in enumerate(found.accounts, 1):
        name = f"account {number}"
        if isinstance(table.get("accessKey"), str):
            name += f" ({table['accessKey'][:60]!a})"
        of_account: list[str] = []
        with _noting(of_account):
            account = _account(_convert(_without_empty(table), Form), of_account)
            if account.access_key in accounts:
                of_account.append("an account before it has the same accessKey")
            elif not of_account:
                accounts[account.access_key] = account
        problems += [f"{name}: {problem}" for problem in of_account]
    if not (accounts or white or problems):
        problems.append("it has no account: nobody could connect")
    return Accounts(accounts, tuple(white), count_changes(found.data_version)), problems


def count_changes(data_version: Any) -> int:
    """The counter in a `dataVersion`: `[{counter: 1, timestamp: 1}]`. 0 for anything else."""
    first = data_version[0] if isinstance(data_version, list) and data_version else None
    counter = str(first.get("counter", "")) if isinstance(first, dict) else ""
    return int(counter) if re.fullmatch(r"[0-9]{1,18}", counter) else 0


@contextlib.contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Notes an error, and goes on."""
    try:
        yield
    except ValueError as error:
        problems.append(str(error))


def load_plain(data: bytes) -> Any:
    """What the bytes of a file say, every value as a text. Raises ValueError."""
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


def _account(form: Form, problems: list[str]) -> Account:
    """An account. Adds what is wrong with it to the problems."""
    for field, value in (("accessKey", form.access_key), ("secretKey", form.secret_key)):
        if len(value) < _LEAST_CHARACTERS:
            problems.append(f"{field}: it needs at least {_LEAST_CHARACTERS} characters")
        elif len(value) > _MOST_CHARACTERS or not value.isprintable():
            problems.append(f"{field}: it is no text of at most {_MOST_CHARACTERS} characters")
    perms: dict[str, Perm] = {}
    for field, entries, of in (
        ("topicPerms", form.topic_perms, str),
        ("groupPerms", form.group_perms, retry_topic),
    ):
        for entry in entries:
            with _noting(problems):
                name, perm = parse_entry(field, entry)
                resource = of(name)
                if resource in perms:
                    raise ValueError(f"{field}: {name!a} has a permission already")
                perms[resource] = perm
    white = None
    if form.white_remote_address:
        with _noting(problems):
            white = _pattern(form.white_remote_address, "whiteRemoteAddress")
    defaults = [Perm.DENY, Perm.DENY]
    for number, (text, field) in enumerate(
        (
            (form.default_topic_perm, "defaultTopicPerm"),
            (form.default_group_perm, "defaultGroupPerm"),
        )
    ):
        with _noting(problems):
            defaults[number] = _perm(text, field)
    return Account(
        access_key=form.access_key,
        key=SigningKey(form.secret_key.encode()),
        admin=form.admin,
        white=white,
        default_topic=defaults[0],
        default_group=defaults[1],
        perms=perms,
    )


def parse_entry(field: str, entry: str) -> tuple[str, Perm]:
    """The name and the permission of an entry of a list. Raises ValueError, which names `field`."""
    name, equals, perm = entry.partition("=")
    if not (equals and name.strip()):
        raise ValueError(f"{field}: {entry!a} is not NAME=PERMISSION")
    return name.strip(), _perm(perm, f"{field}: {name.strip()!a}")


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
