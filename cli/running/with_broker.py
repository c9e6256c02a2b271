"""A store and its broker by one command: `silo serve --listen` and `silo dev`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..shared.outcome import Exit, Failure, tell
from .broker import parse_address

if TYPE_CHECKING:
    import socket

    from ...broker.wire.address import Address
    from ...conf.broker_settings import BrokerSettings
    from ...conf.settings import Settings
    from ...supervisor.live_settings import SettingsSource
    from ...supervisor.store_and_broker import Work

#: New code would not know that.
_REMOVED = "this store is removed at its end (silo dev): end it and start another one"


class Both(NamedTuple):
    """What a store and its broker run with. `source` has the store's settings."""

    store: Settings
    source: SettingsSource
    broker: BrokerSettings
    listener: socket.socket


def listen(text: str, *, is_open: bool) -> tuple[socket.socket, dict[str, Any]]:
    """A socket that listens at the address, and the settings of a store whose records name that
    address. Raises Failure, StoreError.
    """
    from ...broker.wire.address import Address

    address = parse_address(text, is_open=is_open)
    assert address is not None
    listener = address.listen()
    bound = Address.of(listener)
    if not (is_open or bound.is_loopback):  # a host name may lead anywhere
        listener.close()
        parse_address(str(bound), is_open=is_open)
    found: dict[str, Any] = {"store_port": bound.port}
    if bound.host not in ("0.0.0.0", "::"):  # noqa: S104 - these are no address to connect to
        found["store_host"] = bound.host
    return listener, found


def split_overrides(overrides: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """NAME=VALUE texts for the store and for the broker. Raises Failure with status 3."""
    from ...conf.kinds import SettingError
    from ...conf.shared_overrides import split

    try:
        return split(overrides)
    except SettingError as error:
        raise Failure(Exit.SETTING, str(error)) from error


def run(
    both: Both,
    *,
    ready: Callable[[], None] = lambda: None,
    until_eof: bool = False,
    afterwards: Callable[[], None] | None = None,
) -> tuple[int, bool]:
    """Runs both until a signal. Returns the exit status, and whether the store was this command's.

    `ready` is called when the broker serves; with `until_eof` the end of standard input ends both.
    `afterwards` is called in the store's process when the store has ended.
    """
    from ...conf.logging import configure
    from ...supervisor.store_and_broker import StoreAndBroker

    settings = both.store
    configure(settings.store_path.name, "parent", settings.log_level, settings.log_format)
    until = sys.stdin.fileno() if until_eof else -1
    parent = StoreAndBroker(
        lambda claimed: _run_store(both, claimed, afterwards),
        lambda: _load_broker(both),
        ready,
        until,
        stop_s=settings.stop_timeout_ms / 1000,
    )
    return parent.run(), parent.claimed


def serve_store(
    settings: Settings,
    source: SettingsSource,
    claimed: Callable[[], None] = lambda: None,
    keeps_code: str = "",
) -> int:
    """Runs a store in this process until a signal. `keeps_code` says why its code cannot be
    replaced meanwhile. Raises Failure with status 4 if another process has it, StoreError, OSError.
    """
    from ...supervisor import main
    from ...supervisor.claim import AlreadyRunning
    from ...supervisor.listener import WrongSocket

    try:
        return main.serve(settings, source, claimed, keeps_code)
    except AlreadyRunning as error:
        raise Failure(Exit.LOCKED, str(error)) from error
    except WrongSocket as error:
        raise Failure(Exit.SETTING, str(error)) from error


def _run_store(
    both: Both, claimed: Callable[[], None], afterwards: Callable[[], None] | None
) -> int:
    both.listener.close()
    try:
        keeps_code = _REMOVED if afterwards is not None else ""
        status = serve_store(both.store, both.source, claimed, keeps_code)
        if afterwards is not None:
            afterwards()
    except Exception as error:  # noqa: BLE001 - as at the end of every command
        return tell(error)
    return status


def _load_broker(both: Both) -> Work:
    import setproctitle

    from ...broker import server
    from ...conf.logging import configure

    settings = both.store
    name = settings.store_path.name
    configure(name, "broker", settings.log_level, settings.log_format)
    setproctitle.setproctitle(f"silomq[{name}] broker")

    def check(_: Address) -> None:
        """The address was checked when it was read."""

    def work(ready: Callable[[], None]) -> int:
        folder, patience_s = str(settings.store_path), float("inf")
        try:
            server.serve(folder, both.broker, both.listener, patience_s, check, ready=ready)
        except Exception as error:  # noqa: BLE001 - as at the end of every command
            return tell(error)
        return Exit.OK

    return work
