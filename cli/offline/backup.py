"""`silo backup`, `silo backups` and `silo restore`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shared.common import json_option, put_json, put_line, say
from ..shared.outcome import Exit, Failure
from .repair import lock_store
from .tooling import F, bad_input_is_usage, settings_of, store_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...conf.settings import Settings
    from ...store.disk.paths import StoreFolders
    from ...tools.backup.source import Source

_BACKUP_EPILOG = """\b
Examples:
  silo backup ./store /backups/orders
  silo backup ./store /backups/orders --keep 7
  silo verify /backups/orders/2026-01-31T120000.000Z
\b
Exit status:
  0    the backup is whole and durable
  1    failed: no backup was made, the earlier ones are as they were
  2    wrong usage: DIR holds something else, or lies in the store
  4    another backup into DIR is under way, or RocketMQ has the store
  5    data of the store is corrupt
  6    the disk of DIR is full
"""
_RESTORE_EPILOG = """\b
Examples:
  silo restore /backups/orders ./store
  silo restore /backups/orders ./store --at 2026-01-31T120000.000Z
\b
Exit status:
  0    the store is there, and may be started
  2    wrong usage: STORE is not empty, or BACKUP is none
  5    the backup was cut off, or lacks a file
  6    the disk is full
"""


def _path(name: str, metavar: str) -> Callable[[F], F]:
    return click.argument(name, type=click.Path(path_type=Path, readable=False), metavar=metavar)


@click.command(epilog=_BACKUP_EPILOG, short_help="Copy a store consistently, also a running one.")
@store_argument
@_path("into", "DIR")
@click.option("--copy", is_flag=True, help="Copy every file, and link none of the store's.")
@click.option(
    "--keep", type=click.IntRange(min=1), metavar="N", help="Then remove all but the newest N."
)
@click.option("--verify", is_flag=True, help="Check the backup as silo verify does.")
@json_option
def backup(
    store: Path,
    into: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    *,
    copy: bool,
    keep: int | None,
    verify: bool,
    as_json: bool,
) -> None:
    """Make a backup of STORE in the folder DIR, next to the backups that it has already.

    STORE may run or be stopped. All that was answered before is in the backup, which is a store
    itself. Full files of the log are linked where DIR is on the same file system.
    """
    settings = settings_of(config_file, overrides, store)
    from ...store.recovery.unsupported import refuse_unsupported
    from ...tools.backup.folder import BackupFolder, InUse
    from ...tools.backup.make import make_backup
    from ...tools.raw.files import StoreFiles

    with bad_input_is_usage():
        refuse_unsupported(store)
        StoreFiles(store, settings).close()
        try:
            with BackupFolder(into, store) as folder:
                with _source(store, settings) as (folders, source):
                    made = make_backup(folders, settings, source, folder, links=not copy)
                if verify:
                    _check(into / made.name, settings)
                removed = [] if keep is None else folder.keep(keep)
        except InUse as error:
            raise Failure(Exit.LOCKED, str(error)) from error
    path = into / made.name
    if as_json:
        about = {"begin": made.begin, "end": made.end, "files": dict(made.files)}
        put_json(
            {"backup": str(path), **about, "copied_bytes": made.copied_bytes, "removed": removed}
        )
        return
    put_line(str(path))
    ways = ", ".join(f"{count:,} {way}" for way, count in sorted(made.files.items()))
    say(
        f"silo: offsets {made.begin:,} to {made.end:,}; files: {ways or 'none'}; "
        f"{made.copied_bytes:,} bytes copied"
    )
    for name in removed:
        say(f"silo: removed {into / name}")


@contextlib.contextmanager
def _source(store: Path, settings: Settings) -> Iterator[tuple[StoreFolders, Source]]:
    """The store's folders, and what says where its log ends: the running store, or its files."""
    from ...client.errors import StoreClosed
    from ...client.session import Connection
    from ...store.disk.paths import StoreFolders
    from ...tools.backup.source import RunningStore, StoppedStore

    with contextlib.ExitStack() as opened:
        try:
            link = Connection(store, client="backup")
        except StoreClosed as error:
            if isinstance(error.__cause__, PermissionError | TimeoutError):
                raise  # it runs, and this user may not back it up, or it does not answer
            opened.callback(os.close, lock_store(store))
            folders = opened.enter_context(StoreFolders(store))
            yield folders, StoppedStore(folders, settings)
            return
        opened.callback(link.close)
        folders = opened.enter_context(StoreFolders(store))
        yield folders, RunningStore(link.control, os.fspath(store), link.is_alive)


def _check(path: Path, settings: Settings) -> None:
    from ...tools.verify.verify import verify

    report = verify(path, settings)
    if not report.sound:
        why = f"{path} is not sound: {report.findings[0]}; silo verify {path} shows all"
        raise Failure(Exit.CORRUPT, why)
    say(f"silo: {path} is sound")


@click.command(short_help="List the backups in a folder.")
@_path("folder", "DIR")
@json_option
def backups(folder: Path, *, as_json: bool) -> None:
    """List the whole backups in DIR, oldest first. Those that were cut off are not shown."""
    from ...tools.backup.folder import found_in

    with bad_input_is_usage():
        found = found_in(folder)
    for each in found:
        about = each.manifest
        if as_json:
            said = {"store": about.store, "begin": about.begin, "end": about.end} if about else {}
            put_json({"name": each.name, "whole": about is not None, **said})
        elif about is None:
            put_line(f"{each.name}  its list of files is damaged")
        else:
            put_line(f"{each.name}  offsets {about.begin:,} to {about.end:,} of {about.store}")


@click.command(epilog=_RESTORE_EPILOG, short_help="Make a store from a backup.")
@_path("source", "BACKUP")
@_path("store", "STORE")
@click.option("--at", "name", metavar="NAME", help="The backup to take.  [default: the newest]")
@json_option
def restore(source: Path, store: Path, *, name: str | None, as_json: bool) -> None:
    """Make the store STORE from BACKUP: one backup, or a folder of backups.

    The backup stays as it is. STORE must be a new or an empty folder.
    """
    from ...tools.backup.restore import backup_at
    from ...tools.backup.restore import restore as bring_back

    with bad_input_is_usage():
        done = bring_back(backup_at(source, name), store)
    about = done.manifest
    if as_json:
        span = {"begin": about.begin, "end": about.end, "copied_bytes": done.copied_bytes}
        put_json({"store": str(store), "backup": done.backup, **span})
        return
    say(
        f"silo: {store} is the store of {done.backup}: offsets {about.begin:,} to {about.end:,}; "
        f"start it with: silo serve --store {store}"
    )
