"""Changes of a file of accounts. Its comments and the order of its lines stay (ruamel.yaml).

A change is made twice: in the document with its comments, and in the plain values. The new text
must be one that a broker can use, and must read as the plain values. Otherwise nothing is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import secrets
import stat
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from .accounts import BadAccounts, Unreadable, count_changes, load_plain, read_bytes, use
from .permissions import Perm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

#: What a new file begins with.
_NEW: Final = (
    b"# Accounts of a SiloMQ broker, in the form of RocketMQ's plain_acl.yml.\naccounts:\n"
)
_CANNOT: Final = "its comments stand where this change cannot keep them: use an editor"
#: Bytes of randomness in a secret that is made here.
_SECRET_BYTES: Final = 24


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of an account; None leaves a field. `topics` and `groups` give a permission
    by name, None takes it away. `only_topics` and `only_groups` replace the whole lists.
    """

    secret: str | None = None
    white: str | None = None
    admin: bool | None = None
    default_topic: Perm | None = None
    default_group: Perm | None = None
    topics: Mapping[str, Perm | None] = {}
    groups: Mapping[str, Perm | None] = {}
    only_topics: Mapping[str, Perm] | None = None
    only_groups: Mapping[str, Perm] | None = None


def new_secret() -> str:
    """A secret that nobody can guess."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def add_account(path: Path, key: str, change: Change) -> None:
    """Adds an account. Makes the file, for its owner alone, if it is missing. Raises BadAccounts,
    OSError.
    """
    _rewrite(path, lambda plain, document: _add(plain, document, key, change), make=True)


def change_account(path: Path, key: str, change: Change) -> None:
    """Changes an account. Raises BadAccounts, also if there is none, and OSError."""

    def edit(plain: Any, document: Any) -> None:
        where = _find(plain, key)
        for accounts in (plain["accounts"], document["accounts"]):
            _apply(accounts[where], change)

    _rewrite(path, edit)


def put_account(path: Path, key: str, change: Change) -> None:
    """Changes an account, or adds it. Raises as the two do."""

    def edit(plain: Any, document: Any) -> None:
        if any(one.get("accessKey") == key for one in plain.get("accounts") or ()):
            where = _find(plain, key)
            for accounts in (plain["accounts"], document["accounts"]):
                _apply(accounts[where], change)
        else:
            _add(plain, document, key, change)

    _rewrite(path, edit)


def remove_account(path: Path, key: str) -> None:
    """Removes an account. Raises BadAccounts, also if there is none, and OSError."""

    def edit(plain: Any, document: Any) -> None:
        where = _find(plain, key)
        for one in (plain, document):
            del one["accounts"][where]

    _rewrite(path, edit)


def set_white(path: Path, addresses: list[str]) -> None:
    """Sets the addresses whose requests are not checked. Raises BadAccounts, OSError."""

    def edit(plain: Any, document: Any) -> None:
        for one in (plain, document):
            one["globalWhiteRemoteAddresses"] = list(addresses)

    _rewrite(path, edit)


# -- edits of plain values and of documents alike


def _find(plain: Any, key: str) -> int:
    for number, one in enumerate(plain.get("accounts") or ()):
        if one.get("accessKey") == key:
            return number
    raise BadAccounts(f"there is no account {key[:60]!a}")


def _add(plain: Any, document: Any, key: str, change: Change) -> None:
    for one in plain.get("accounts") or ():
        if one.get("accessKey") == key:
            raise BadAccounts(f"there is an account {key[:60]!a} already")
    for one in (plain, document):
        account: dict[str, Any] = {"accessKey": key}
        _apply(account, change)
        if not one.get("accounts"):
            one["accounts"] = []
        one["accounts"].append(account)


def _apply(account: Any, change: Change) -> None:
    values = {
        "secretKey": change.secret,
        "whiteRemoteAddress": change.white,
        "admin": change.admin,
        "defaultTopicPerm": _text(change.default_topic),
        "defaultGroupPerm": _text(change.default_group),
    }
    for name, value in values.items():
        if value is not None:
            account[name] = value
    for name, only, wanted in (
        ("topicPerms", change.only_topics, change.topics),
        ("groupPerms", change.only_groups, change.groups),
    ):
        if only is not None:
            account[name] = [f"{resource}={perm}" for resource, perm in only.items()]
        if wanted:
            _apply_list(account, name, wanted)


def _apply_list(account: Any, name: str, wanted: Mapping[str, Perm | None]) -> None:
    if not account.get(name):
        account[name] = []
    entries = account[name]
    for resource, perm in wanted.items():
        places = [
            number
            for number, entry in enumerate(entries)
            if entry.partition("=")[0].strip() == resource
        ]
        if perm is None:
            for number in reversed(places):
                del entries[number]
        elif places:
            entries[places[0]] = f"{resource}={_text(perm)}"
        else:
            entries.append(f"{resource}={_text(perm)}")


def _text(perm: Perm | None) -> str | None:
    return None if perm is None else str(perm)


# -- the file


def _rewrite(path: Path, edit: Callable[[Any, Any], None], *, make: bool = False) -> None:
    """Applies an edit to a file's plain values and its document, and replaces the file."""
    path = path.resolve()
    with _locked(path.parent) as folder:
        try:
            old, about = read_bytes(path), path.stat()
        except Unreadable as error:
            if not (make and isinstance(error.__cause__, FileNotFoundError)):
                raise
            old, about = _NEW, None
        try:
            new = _edited(old, edit, may_be_empty=about is None)
        except ValueError as error:
            raise BadAccounts(f"{path}: {error}") from error
        _replace(path, folder, new, about)


def _edited(old: bytes, edit: Callable[[Any, Any], None], *, may_be_empty: bool) -> bytes:
    """The text after an edit. Raises ValueError, BadAccounts."""
    plain = load_plain(old)
    if not may_be_empty:
        use(plain)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 20  # nothing is folded
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.BytesIO()
    try:
        document = yaml.load(old)
        edit(plain, document)
        for one in (plain, document):
            _count_version(one)
        use(plain)
        yaml.dump(document, out)
        new = out.getvalue()
        same = _plain_texts(_loaded(new)) == _plain_texts(plain)
    except (YAMLError, RecursionError) as error:
        raise ValueError(f"{_CANNOT}: {type(error).__name__}") from None
    if not same:
        raise ValueError(_CANNOT)
    return new


def _loaded(new: bytes) -> Any:
    """What a new text says, None if it cannot be read."""
    try:
        return load_plain(new)
    except ValueError:
        return None


def _count_version(document: Any) -> None:
    """Counts a change in the `dataVersion` that RocketMQ's tools have left, if there is one."""
    found = document.get("dataVersion")
    counted = count_changes(found)
    if counted:
        found[0]["counter"] = counted + 1
        found[0]["timestamp"] = time.time_ns() // 1_000_000


def _plain_texts(value: Any) -> Any:
    """Plain values as a file has them: all of them texts, and no empty list beside none."""
    if isinstance(value, dict):
        pairs = {name: _plain_texts(one) for name, one in value.items()}
        del_time = {"timestamp"}  # the two documents count at two times
        return {n: one for n, one in pairs.items() if one not in ("", []) and n not in del_time}
    if isinstance(value, list):
        return [_plain_texts(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """The descriptor of a folder in which nobody else changes accounts meanwhile."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _replace(path: Path, folder: int, data: bytes, about: os.stat_result | None) -> None:
    """Replaces a file: after a crash it is the old or the new one. Owner and mode stay; a new file
    is its owner's alone.
    """
    name, temporary = path.name, f".{path.name}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)  # left by a crash
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(fd, "wb") as file:
            if about is not None:
                if (about.st_uid, about.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(fd, about.st_uid, about.st_gid)
                os.fchmod(fd, stat.S_IMODE(about.st_mode))
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
