"""The files of a service: where each lies, and its text with the paths of this installation."""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

import msgspec

from ...store.disk.paths import SOCKET
from ...store.errors import IllegalArgument

STORE: Final = Path("/var/lib/silomq/store")
_CONFIG: Final = Path("/etc/silomq/silomq.toml")
_USERS_STORE: Final = "%h/.local/share/silomq/store"
_USERS_CONFIG: Final = "%E/silomq/silomq.toml"
_BROKERS_CONFIG: Final = Path("/etc/silomq/silomq-broker.toml")
_USERS_BROKERS_CONFIG: Final = "%E/silomq/silomq-broker.toml"
_COMMAND: Final = "/usr/bin/env silo "
_ADDRESS_MAX: Final = 107  # bytes in the address of a Unix socket
#: Characters that a unit reads as they are: no space, quote, backslash, % or $.
_PLAIN: Final = re.compile(r"/[\w./@:+,=-]*")
#: What the unit's sandbox hides.
_HIDDEN: Final = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108 - as ProtectHome


class ServiceFile(msgspec.Struct, frozen=True):
    """One file. `settings` is the user's own once it is there: it is never written again."""

    path: Path
    text: str
    settings: bool = False


def of_machine(store: Path, python: str, *, broker: bool) -> list[ServiceFile]:
    """The files of a store of this machine, and with `broker` those of its broker. Raises
    IllegalArgument for a path that a unit cannot hold, or that the service could not reach.
    """
    _check(store, python)
    for what, path in (("--store", str(store)), ("the interpreter", python)):
        if any(f"{path}/".startswith(f"{folder}/") for folder in _HIDDEN):
            raise IllegalArgument(
                f"{what} {path} lies where the service may not look ({', '.join(_HIDDEN)}): "
                "install SiloMQ in a folder such as /opt/silomq, or use --user"
            )
    service = _service("silomq.service", python, (str(STORE), store))
    if not store.is_relative_to(STORE.parent):
        line = "StateDirectory=silomq\n"
        assert service.count(line) == 1, "the template has one such line"
        service = service.replace(line, f"{line}ReadWritePaths={store}\n")
    units = Path("/etc/systemd/system")
    return [
        ServiceFile(Path("/etc/sysusers.d/silomq.conf"), _template("silomq.sysusers")),
        ServiceFile(
            Path("/etc/tmpfiles.d/silomq.conf"),
            _put(_template("silomq.tmpfiles"), str(STORE), str(store)),
        ),
        ServiceFile(_CONFIG, _template("silomq.toml"), settings=True),
        ServiceFile(
            units / "silomq.socket", _put(_template("silomq.socket"), str(STORE), str(store))
        ),
        ServiceFile(units / "silomq.service", service),
        *(_brokers_of_machine(units, store, python) if broker else ()),
    ]


def _brokers_of_machine(units: Path, store: Path, python: str) -> list[ServiceFile]:
    service = _service("silomq-broker.service", python, (str(STORE), store))
    if not store.is_relative_to(STORE.parent):
        service = _put(service, f"ReadOnlyPaths={STORE.parent}\n", f"ReadOnlyPaths={store}\n")
    return [
        ServiceFile(_BROKERS_CONFIG, _template("silomq-broker.toml"), settings=True),
        ServiceFile(units / "silomq-broker.service", service),
    ]


def of_user(store: Path, python: str, config_home: Path, *, broker: bool) -> list[ServiceFile]:
    """The files of a store of one user. Arguments and errors as `of_machine`."""
    config = config_home / "silomq" / "silomq.toml"
    _check(store, python, str(config))
    service = _service(
        "silomq-user.service", python, (_USERS_CONFIG, config), (_USERS_STORE, store)
    )
    units = config_home / "systemd" / "user"
    socket = _put(_template("silomq-user.socket"), _USERS_STORE, str(store))
    return [
        ServiceFile(config, _template("silomq.toml"), settings=True),
        ServiceFile(units / "silomq.socket", socket),
        ServiceFile(units / "silomq.service", service),
        *(_brokers_of_user(config_home, store, python) if broker else ()),
    ]


def _brokers_of_user(config_home: Path, store: Path, python: str) -> list[ServiceFile]:
    config = config_home / "silomq" / "silomq-broker.toml"
    places = (_USERS_BROKERS_CONFIG, config), (_USERS_STORE, store)
    service = _service("silomq-broker-user.service", python, *places)
    return [
        ServiceFile(config, _template("silomq-broker.toml"), settings=True),
        ServiceFile(config_home / "systemd" / "user" / "silomq-broker.service", service),
    ]


def _check(store: Path, *others: str) -> None:
    for path in (str(store), *others):
        if not _PLAIN.fullmatch(path):
            raise IllegalArgument(
                f"{path}: a unit takes absolute paths of letters, digits and _ . / @ : + , = -; "
                "give another --store, or install SiloMQ elsewhere"
            )
    if len(os.fsencode(f"{store}/{SOCKET}")) > _ADDRESS_MAX:
        raise IllegalArgument(
            f"--store {store} is too long: the address of its socket has at most {_ADDRESS_MAX} "
            f"bytes, with /{SOCKET}"
        )


def _service(name: str, python: str, *places: tuple[str, Path]) -> str:
    """The text of a unit; `places` are what the template shows, and what it is here."""
    text = _put(_template(name), _COMMAND, f"{python} -P -m silomq.cli.main ")
    for shown, actual in places:
        text = _put(text, shown, str(actual))
    return text


def _template(name: str) -> str:
    return (files("silomq.conf") / name).read_text(encoding="utf-8")


def _put(text: str, shown: str, actual: str) -> str:
    """The text with `actual` for `shown`."""
    assert shown in text, f"the template names {shown}"
    return text.replace(shown, actual)
