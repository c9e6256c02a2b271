"""`silo broker` serves a store to RocketMQ's clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..shared.common import set_option, store_option
from ..shared.outcome import Exit, Failure
from .listening import listen_address

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...broker.wire.address import Address
    from ...conf.broker_settings import BrokerSettings

_EPILOG = """\b
Examples:
  silo broker --store /var/lib/silomq
  silo broker --listen 127.0.0.1:10911 --set namesrvAddr=10.0.0.5:9876
  silo broker --listen 0.0.0.0:10911 --open
  silo broker --listen 0.0.0.0:10911 --set aclEnable=true --set acl_file=plain_acl.yml
"""
#: Names the file with the settings of a broker.
CONFIG_VARIABLE = "SILOMQ_BROKER_CONFIG"
#: How long a store may take to start (s).
_PATIENCE_S = 30.0

_NOT_OPEN = (
    "this broker serves whoever connects. Listen on 127.0.0.1, let it ask for accounts "
    "(acl_enable, acl_file), or say --open if only machines that you trust reach that address"
)

listen_option = click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Where clients connect. IPv6: [HOST]:PORT.  [default: the store's host and port]",
)
open_option = click.option(
    "--open",
    "is_open",
    is_flag=True,
    help="Allow an address that other machines reach without accounts: whoever connects may send "
    "and read.",
)


def parse_address(listen: str | None, *, is_open: bool) -> Address | None:
    """The address to listen at; None is that of the store. Raises Failure for one that is none, or
    that other machines reach without `is_open`.
    """
    return None if listen is None else listen_address(listen, _NOT_OPEN, is_open=is_open)


def load_broker_settings(
    path: Path | None, overrides: Sequence[str], defaults: Mapping[str, Any] | None = None
) -> BrokerSettings:
    """The settings of these options. Raises Failure with status 3 for an illegal one."""
    from ...conf.broker_settings import load
    from ...conf.kinds import SettingError

    try:
        return load(path, overrides=overrides, defaults=defaults)
    except SettingError as error:
        raise Failure(Exit.SETTING, str(error)) from error
    except OSError as error:
        why = f"cannot read the settings: {error.strerror} ({error.filename or path})"
        raise Failure(Exit.SETTING, why) from error


@click.command(epilog=_EPILOG, short_help="Serve a store to RocketMQ's clients.")
@store_option
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, readable=False),
    envvar=CONFIG_VARIABLE,
    show_envvar=True,
    metavar="FILE",
    help="TOML file with settings of the broker.",
)
@set_option("Change one setting (`silo config --template broker` lists them)")
@listen_option
@open_option
def broker(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    listen: str | None,
    *,
    is_open: bool,
) -> None:
    """Serve the store in DIR to RocketMQ's clients until SIGTERM or Ctrl-C.

    The store must run (silo serve); the broker waits for it. Clients need no other name server:
    namesrvAddr is the broker's address. Log lines go to stderr.
    """
    from ...broker.server import serve
    from ...conf.logging import configure

    settings = load_broker_settings(config_file, overrides)
    is_open = is_open or settings.knows_clients
    address = parse_address(listen, is_open=is_open)
    configure(store.name, "broker")

    def check(bound: Address) -> None:
        if not (is_open or bound.is_loopback):
            parse_address(str(bound), is_open=is_open)

    serve(str(store), settings, address, _PATIENCE_S, check)
