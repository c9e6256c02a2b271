"""`silo dev`: a store, its broker and the routes in one command, for a developer's machine."""

from __future__ import annotations

import contextlib
import functools
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..shared.common import put_line, say, set_option
from .broker import load_broker_settings, open_option
from .serve import load_settings, source_of
from .with_broker import Both, listen, run, split_overrides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...conf.settings import Settings
    from ...supervisor.live_settings import SettingsSource

_EPILOG = """\b
Examples:
  silo dev
  silo dev --store ./dev-store --set enablePropertyFilter=false
  silo dev --listen 127.0.0.1:0                 # any free port, printed when it is ready
"""
#: RocketMQ's users and their examples expect the name server there.
_DEFAULT_LISTEN = "127.0.0.1:9876"
_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


@click.command(epilog=_EPILOG, short_help="RocketMQ for a developer's machine: all in one command.")
@click.option(
    "--store",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="Folder of the store.  [default: a temporary one, removed at the end]",
)
@click.option(
    "--listen",
    "address",
    default=_DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where clients connect: this is namesrvAddr. The port 0 is any free one.",
)
@open_option
@set_option("Change one setting of the store or of the broker, also by RocketMQ's name")
@click.option(
    "--clean-on-exit", is_flag=True, help="Remove the store at the end, with --store too."
)
@click.option(
    "--until-eof",
    is_flag=True,
    help="Stop at the end of standard input too, so that it ends with the program that started it.",
)
def dev(
    store: Path | None,
    address: str,
    overrides: tuple[str, ...],
    *,
    is_open: bool,
    clean_on_exit: bool,
    until_eof: bool,
) -> int:
    """Run a store and its broker until SIGTERM or Ctrl-C, for development and tests.

    Any RocketMQ client connects with the printed address as its name server. Topics and groups are
    made when they are used. Files are small; SQL filters and message traces are on. When clients
    can connect, two lines are printed: NAMESRV_ADDR= and SILOMQ_STORE_PATH=.
    """
    from ...broker.wire.address import Address
    from ...conf import developer

    of_store, of_broker = split_overrides(overrides)
    broker = load_broker_settings(None, of_broker, developer.BROKER)
    listener, place = listen(address, is_open=is_open or broker.knows_clients)
    with _folder(store) as path:
        settings, source = _load(path, of_store, place)
        both = Both(settings, source, broker, listener)
        temporary = store is None
        remove = functools.partial(_remove, path) if temporary or clean_on_exit else None
        status, claimed = run(
            both,
            ready=functools.partial(_print_places, path, str(Address.of(listener))),
            until_eof=until_eof,
            afterwards=remove,
        )
        if remove is not None and (temporary or claimed):
            remove()
    return status


@contextlib.contextmanager
def _folder(store: Path | None) -> Iterator[Path]:
    """The store's folder. A temporary one is removed when no store has begun in it."""
    if store is not None:
        yield store
        return
    # A signal waits until it can end the store, so that the folder does not stay.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    path = Path(tempfile.mkdtemp(prefix="silomq-dev-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _load(
    path: Path, overrides: list[str], place: dict[str, Any]
) -> tuple[Settings, SettingsSource]:
    from ...conf import developer

    of_store = [*overrides, f"store_path={path}"]
    defaults = {**developer.STORE, **place}
    settings, _ = load_settings(None, of_store, defaults)
    return settings, source_of(None, of_store, defaults)


def _print_places(path: Path, address: str) -> None:
    put_line(f"NAMESRV_ADDR={address}")
    put_line(f"SILOMQ_STORE_PATH={path}")
    sys.stdout.flush()
    if sys.stderr.isatty():
        say(f"RocketMQ's clients take {address} as their name server. Ctrl-C ends it.")


def _remove(path: Path) -> None:
    from ...supervisor.removal import remove_store

    remove_store(path)
