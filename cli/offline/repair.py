"""`silo repair`: repairs a stopped store, and keeps a copy of all removed data."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..shared.common import say
from ..shared.outcome import Exit, Failure
from .tooling import bad_input_is_usage, settings_of, store_argument

_EPILOG = """\b
Examples:
  silo repair ./store --rebuild
  silo repair ./store --rebuild --yes
  silo repair ./store --holes
  silo repair ./store --truncate-at 4096 --yes
"""


@click.command(epilog=_EPILOG, short_help="Repair a stopped store; removed data is kept.")
@store_argument
@click.option("--rebuild", is_flag=True, help="Rebuild consume queues and index from the log.")
@click.option(
    "--truncate-at",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="End the log at this address, then rebuild queues and index.",
)
@click.option(
    "--holes",
    is_flag=True,
    help="Declare lost parts of the log as holes and go on with all the rest; then rebuild.",
)
@click.option("--yes", is_flag=True, help="Do it. Without this, only say what would be done.")
def repair(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    *,
    rebuild: bool,
    truncate_at: int | None,
    holes: bool,
    yes: bool,
) -> None:
    """Repair STORE, which must be stopped. Removed data is kept below STORE/recovery."""
    if rebuild + holes + (truncate_at is not None) != 1:
        raise click.UsageError("give one of --rebuild, --holes and --truncate-at OFFSET")
    settings = settings_of(config_file, overrides, store)
    from ...tools.raw.files import StoreFiles
    from ...tools.repair import apply, log_state, plan_holes, plan_rebuild, plan_truncate

    with bad_input_is_usage():
        before = log_state(store)
        if holes:
            steps = plan_holes(os.fspath(store), settings)
        else:
            files = StoreFiles(store, settings)
            steps = (
                plan_rebuild(files) if truncate_at is None else plan_truncate(files, truncate_at)
            )
            files.close()
        if not yes:
            for step in steps:
                say(f"would {step.what}")
            say("nothing was done; --yes does it")
            return
        lock = lock_store(store)
        try:
            if log_state(store) != before:
                raise Failure(Exit.LOCKED, f"{store} was written to just now: try again")
            kept = apply(os.fspath(store), settings, steps, lambda step: say(step.what))
        finally:
            os.close(lock)
    say(f"done; removed data is kept in {kept}")


def lock_store(store: Path) -> int:
    """Takes the store's lock, so that no process starts the store meanwhile. Returns its
    descriptor, which the caller closes. Raises Failure.
    """
    from ...store.disk.files import Folder
    from ...store.disk.paths import StoreFolders
    from ...supervisor.claim import AlreadyRunning, take_lock

    with Folder.open(store) as folder:
        if not folder.is_writable():
            raise Failure(Exit.USAGE, f"{store} is not writable: run as a user who may")
    folders = StoreFolders(store, create=True)
    try:
        return take_lock(folders.root)
    except AlreadyRunning as error:
        raise Failure(Exit.LOCKED, str(error)) from error
    finally:
        folders.close()
