"""`silo restart` replaces a process of a running store; `silo reload` has it read its settings
again.
"""

from __future__ import annotations

from pathlib import Path

import click

from ...client.admin.admin import Admin
from ..shared.common import json_option, put_json, put_line, store_option

_RESTART_EPILOG = """\b
Examples:
  silo restart append
  silo restart registry --store /var/lib/silomq --json
"""
_RELOAD_EPILOG = """\b
Examples:
  silo reload
  silo reload --store /var/lib/silomq
"""


@click.command(epilog=_RESTART_EPILOG, short_help="Replace one process of a running store.")
@click.argument("actor")
@store_option
@json_option
def restart(actor: str, store: Path, *, as_json: bool) -> None:
    """End the process ACTOR of a running store, and start another one in its place.

    ACTOR is one of the names that `silo status` lists. No message is lost or doubled, and no client
    gets an error: what the process does stands still for some milliseconds. Only the store's user
    and root may do this.
    """
    with Admin(store) as admin:
        stall_ms = admin.restart(actor)
    if as_json:
        put_json({"stalls_ms": {actor: stall_ms}})
    else:
        put_line(f"{actor} is replaced: its work stood still for {stall_ms:.1f} ms")


@click.command(epilog=_RELOAD_EPILOG, short_help="Have a running store read its settings again.")
@store_option
def reload(store: Path) -> None:
    """Have a running store read its settings again, as SIGHUP does.

    All are checked first: if one is wrong, nothing changes. Those that may change at run time take
    effect at once, and those that need a restart are named. Only the store's user and root may do
    this.
    """
    with Admin(store) as admin:
        put_line(admin.reload())
