"""`silo systemd install` and `silo systemd uninstall`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..shared.common import put_line, put_text, say
from ..shared.outcome import Exit, Failure

if TYPE_CHECKING:
    from .unit_files import ServiceFile

_EPILOG = """\b
Examples:
  silo systemd install --user              # a store of your own
  sudo silo systemd install --system       # the store of this machine
  sudo silo systemd install --system --broker  # and a broker for it
  silo systemd install --system --dry-run  # print what it would write
"""
_UNITS: Final = "silomq.socket silomq"
#: Links that exist while the units are enabled.
_ENABLED: Final = tuple(
    f"*.wants/{unit}" for unit in ("silomq.socket", "silomq.service", "silomq-broker.service")
)


@click.group(epilog=_EPILOG)
def systemd() -> None:
    """Write a store's systemd units for this machine, or for one user, or remove them."""


def _options(command: Any) -> Any:
    for option in (
        click.option("--force", is_flag=True, help="Also files that somebody has changed."),
        click.option("--dry-run", is_flag=True, help="Change nothing."),
        click.option(
            "--root",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Write below DIR, for an image or a package.",
        ),
        click.option(
            "--python",
            metavar="FILE",
            default=sys.executable,
            help="The interpreter that has SiloMQ. Default: the one that runs this command.",
        ),
        click.option(
            "--store",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Folder of the store. Default: /var/lib/silomq/store, "
            "or ~/.local/share/silomq/store.",
        ),
        click.option(
            "--system/--user",
            "is_system",
            default=None,
            help="For this machine, or for the user who runs the command.",
        ),
    ):
        command = option(command)
    return command


@systemd.command(epilog=_EPILOG)
@_options
@click.option("--broker", is_flag=True, help="Also the unit and the settings of a broker.")
def install(
    store: Path | None,
    python: str,
    root: Path | None,
    *,
    is_system: bool | None,
    dry_run: bool,
    force: bool,
    broker: bool,
) -> None:
    """Write the units, and the settings if there are none. Says what to run next.

    A file that somebody has changed is written again with --force only, the settings never.
    """
    from .installed_files import State, marked, state_of, write

    files = _files(store, python, is_system=is_system, broker=broker)
    if dry_run:
        for file in files:
            put_text(
                f"# {_below(root, file)}\n{file.text if file.settings else marked(file.text)}\n"
            )
        return
    _check_user(root, is_system=is_system)
    states = {file.path: state_of(file, _below(root, file)) for file in files}
    changed = [file for file in files if states[file.path] is State.CHANGED and not file.settings]
    if changed and not force:
        names = ", ".join(str(_below(root, file)) for file in changed)
        raise Failure(
            Exit.FAILED,
            f"somebody has changed {names}: nothing is written; move the changes to a drop-in "
            "(systemctl edit silomq), then use --force",
        )
    for file in files:
        path, state = _below(root, file), states[file.path]
        if state is State.SAME:
            put_line(f"unchanged  {path}")
        elif file.settings and state is not State.MISSING:
            put_line(f"kept       {path}")
        else:
            write(file, path)
            put_line(f"wrote      {path}")
    _say_next(is_system=bool(is_system), broker=broker)


def _say_next(*, is_system: bool, broker: bool) -> None:
    units = f"{_UNITS} silomq-broker" if broker else _UNITS
    if is_system:
        say(
            "next:\n  systemd-sysusers && systemd-tmpfiles --create silomq.conf\n"
            f"  systemctl daemon-reload\n  systemctl enable --now {units}"
        )
    else:
        say(
            f"next:\n  systemctl --user daemon-reload\n  systemctl --user enable --now {units}\n"
            "  loginctl enable-linger   # if the store is to run while you are logged out"
        )


@systemd.command()
@_options
def uninstall(
    store: Path | None,
    python: str,
    root: Path | None,
    *,
    is_system: bool | None,
    dry_run: bool,
    force: bool,
) -> None:
    """Remove the files that `install` wrote. The store and its settings stay."""
    from .installed_files import State, state_of

    written = _files(store, python, is_system=is_system, broker=True)
    files = [file for file in written if not file.settings]
    user = "" if is_system else "--user "
    units = _below(root, files[-1]).parent
    if any(link for pattern in _ENABLED for link in units.glob(pattern)):
        raise Failure(
            Exit.FAILED,
            f"the units are enabled: first run systemctl {user}disable --now {_UNITS}"
            " (and silomq-broker, if it is there)",
        )
    if not dry_run:
        _check_user(root, is_system=is_system)
    kept = []
    for file in files:
        path = _below(root, file)
        state = state_of(file, path)
        if state is State.MISSING:
            continue
        if state is State.CHANGED and not force:
            kept.append(str(path))
            continue
        if not dry_run:
            path.unlink()
        put_line(f"{'would remove' if dry_run else 'removed'}  {path}")
    if kept:
        why = f"somebody has changed {', '.join(kept)}: not removed without --force"
        raise Failure(Exit.FAILED, why)
    say(f"next:\n  systemctl {user}daemon-reload")


def _files(
    store: Path | None, python: str, *, is_system: bool | None, broker: bool
) -> list[ServiceFile]:
    from . import unit_files

    if is_system is None:
        raise click.UsageError("say --user or --system")
    if store is not None:
        store = Path(os.path.abspath(store))
    if is_system:
        return unit_files.of_machine(store or unit_files.STORE, python, broker=broker)
    config_home = _home("XDG_CONFIG_HOME", ".config")
    return unit_files.of_user(
        store or _home("XDG_DATA_HOME", ".local/share") / "silomq" / "store",
        python,
        config_home,
        broker=broker,
    )


def _home(variable: str, default: str) -> Path:
    """A folder of the XDG base directories. The specification ignores a path that is relative."""
    given = os.environ.get(variable, "")
    return Path(given) if given.startswith("/") else Path.home() / default


def _below(root: Path | None, file: ServiceFile) -> Path:
    return file.path if root is None else root / file.path.relative_to("/")


def _check_user(root: Path | None, *, is_system: bool | None) -> None:
    if is_system and root is None and os.geteuid() != 0:
        raise Failure(
            Exit.FAILED,
            "--system writes below /etc, which only root may: use sudo, or --user for a store of "
            "your own",
        )
