"""`silo serve` runs a store; `silo config` shows the settings that it would run with."""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..shared.common import config_option, json_option, put_json, put_line, set_option, store_option
from ..shared.outcome import Exit, Failure
from .broker import CONFIG_VARIABLE, load_broker_settings, open_option
from .with_broker import Both, listen, run, serve_store, split_overrides

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...conf.settings import Settings
    from ...supervisor.live_settings import SettingsSource

_SERVE_EPILOG = """\b
Examples:
  silo serve --store /var/lib/silomq
  silo serve --set flush_disk_type=SYNC_FLUSH --set mapped_file_size_commit_log=256MiB
  silo serve --config /etc/silomq/silomq.toml
  silo serve --listen 127.0.0.1:10911           # for RocketMQ's clients too
"""
_CONFIG_EPILOG = """\b
Examples:
  silo config
  silo config --config /etc/silomq/silomq.toml --json
  silo config --template toml > silomq.toml
  silo config --template systemd > silomq.service
"""
_TEMPLATES = {
    "toml": "silomq.toml",
    "systemd": "silomq.service",
    "systemd-socket": "silomq.socket",
    "broker": "silomq-broker.toml",
    "broker-systemd": "silomq-broker.service",
}


def _settings_options(command: Any) -> Any:
    for option in (
        set_option("Change one setting (`silo config` lists them)"),
        config_option,
        store_option,
    ):
        command = option(command)
    return command


def load_settings(
    config_file: Path | None,
    overrides: Sequence[str],
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """The settings of these options, and the origin of each. Raises Failure with status 3 for an
    illegal one.
    """
    from ...conf.settings import SettingError, load_with_origins
    from ...store.recovery.layout import known_sizes

    try:
        return load_with_origins(
            config_file, overrides=overrides, remembered=known_sizes, defaults=defaults
        )
    except SettingError as error:
        raise Failure(Exit.SETTING, str(error)) from error
    except OSError as error:
        why = f"cannot read the settings: {error.strerror} ({error.filename or config_file})"
        raise Failure(Exit.SETTING, why) from error


def source_of(
    config_file: Path | None,
    overrides: Sequence[str],
    defaults: Mapping[str, Any] | None = None,
) -> SettingsSource:
    """Where the same settings are read again, for a SIGHUP."""
    from ...supervisor.live_settings import SettingsSource

    path = None if config_file is None else str(config_file)
    return SettingsSource(path, tuple(overrides), None if defaults is None else dict(defaults))


def _with_store(store: Path, overrides: Sequence[str]) -> list[str]:
    """The overrides, with that of --store. Without --store, the settings read the path themselves,
    and know its origin.
    """
    source = click.get_current_context().get_parameter_source("store")
    given = [f"store_path={store}"] if source is ParameterSource.COMMANDLINE else []
    return [*given, *overrides]


@click.command(epilog=_SERVE_EPILOG)
@_settings_options
@click.option(
    "--listen",
    "address",
    metavar="HOST:PORT",
    help="Serve RocketMQ's clients there too: a broker runs beside the store.",
)
@open_option
def serve(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    address: str | None,
    *,
    is_open: bool,
) -> int:
    """Run the store in DIR until SIGTERM or Ctrl-C.

    The folder is made if it is not there. Log lines go to stderr: readable on a terminal, JSON
    otherwise. SIGHUP reads log_level and log_format again. When the terminal on which the store was
    started is closed, the store stops cleanly; nohup, setsid or a service keep it running.

    With --listen, settings may also be a broker's, and the store's records name that address.
    """
    if address is not None:
        return _serve_with_broker(store, config_file, overrides, address, is_open=is_open)
    texts = _with_store(store, overrides)
    settings, _ = load_settings(config_file, texts)
    return serve_store(settings, source_of(config_file, texts))


def _serve_with_broker(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    address: str,
    *,
    is_open: bool,
) -> int:
    of_store, of_broker = split_overrides(overrides)
    named = os.environ.get(CONFIG_VARIABLE)
    broker = load_broker_settings(Path(named) if named else None, of_broker)
    listener, place = listen(address, is_open=is_open or broker.knows_clients)
    texts = _with_store(store, of_store)
    settings, _ = load_settings(config_file, texts, place)
    source = source_of(config_file, texts, place)
    status, _ = run(Both(settings, source, broker, listener))
    return status


@click.command(epilog=_CONFIG_EPILOG, short_help="Print every setting.")
@_settings_options
@click.option(
    "--template",
    type=click.Choice(list(_TEMPLATES)),
    help="Print the annotated file of all settings instead, or the systemd unit, or a broker's.",
)
@json_option
def config(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    template: str | None,
    *,
    as_json: bool,
) -> None:
    """Print every setting: its value, where that came from, its unit, range, default and reason.

    Later sources win: defaults, the file, variables SILOMQ_<NAME>, --store and --set.
    """
    if template:
        sys.stdout.buffer.write((files("silomq.conf") / _TEMPLATES[template]).read_bytes())
        return
    settings, origins = load_settings(config_file, _with_store(store, overrides))
    import msgspec

    from ...conf.schema import kinds
    from ...conf.settings import describe

    values = msgspec.to_builtins(settings, enc_hook=str)
    if as_json:
        put_json(
            [
                {
                    **msgspec.to_builtins(about),
                    "value": values[about.name],
                    "origin": origins[about.name],
                }
                for about in describe()
            ],
            indent=2,
        )
        return
    for about in describe():
        value = kinds()[about.name].show(getattr(settings, about.name))
        put_line(f"{about.name} = {value}")
        put_line(f"    {about.unit}: {about.range}")
        put_line(f"    default {about.default}, this is from: {origins[about.name]}")
        put_line(f"    {about.reason}")
