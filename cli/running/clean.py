"""`silo clean`: removes expired files now."""

from __future__ import annotations

from pathlib import Path

import click

from ...client.admin.admin import Admin
from ...store.retention.rules import MANUAL_RUNS
from ..shared.common import say, store_option

_EPILOG = """\b
Examples:
  silo clean
  silo clean --store /var/lib/silomq && silo status --store /var/lib/silomq
"""


@click.command(epilog=_EPILOG, short_help="Remove expired files now.")
@store_option
def clean(store: Path) -> None:
    """Ask a running store to remove expired files now, not at the hour of delete_when.

    A commit-log file expires when it was last written file_reserved_time_h ago. Queue and index
    files that lead only to removed records are removed too. The file that is being written is never
    removed.
    """
    with Admin(store) as admin:
        admin.clean()
    say(f"the next {MANUAL_RUNS} runs remove expired files; the first begins now")
