"""`silo verify`: checks that a store's files are consistent. Never writes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from ..shared.common import json_option, put_json, put_line, say
from ..shared.outcome import Exit
from .tooling import bad_input_is_usage, settings_of, store_argument

_EPILOG = """\b
Examples:
  silo verify ./store
  silo verify ./store --json --set mapped_file_size_commit_log=64MiB
\b
Exit status:
  0    the store is sound
  1    something is wrong: each finding is a line FILE:OFFSET: WHAT
  2    the store cannot be checked
\b
An offset is an address in the log for commit-log files, a position in the file otherwise.
Stop the store first: bytes that a running store is writing look wrong.
"""


@click.command(epilog=_EPILOG, short_help="Check that a store's files are consistent.")
@store_argument
@click.option(
    "--workers", type=click.IntRange(min=1), help="Threads.  [default: one for each core]"
)
@json_option
def verify(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    workers: int | None,
    *,
    as_json: bool,
) -> int:
    """Check STORE: every record, queue entry and index entry against each other, checkpoint, JSON.

    Nothing is written. Findings go to stdout, a summary to stderr.
    """
    settings = settings_of(config_file, overrides, store)
    from ...tools.verify.verify import verify as check

    with bad_input_is_usage(), _progress() as show:
        report = check(store, settings, workers=workers, on_progress=show)
    if as_json:
        put_json(
            {
                "sound": report.sound,
                "findings": [
                    {"file": f.path, "offset": f.offset, "what": f.what} for f in report.findings
                ],
                "counts": dict(report.counts),
                "notes": report.notes,
            },
            indent=2,
        )
    else:
        for finding in report.findings:
            put_line(str(finding))
    for note in report.notes:
        say(f"silo: {note}")
    counted = ", ".join(f"{count:,} {what}" for what, count in sorted(report.counts.items()))
    outcome = "sound" if report.sound else f"{len(report.findings):,} findings"
    say(f"{store}: {outcome} ({counted or 'empty'})")
    return Exit.OK if report.sound else Exit.FAILED


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal: a function that shows the bytes done, of all. Elsewhere nothing is
    shown, and rich, which takes a tenth of a second to import, is not needed.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    columns = BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verify", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
