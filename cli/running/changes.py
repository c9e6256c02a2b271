"""`silo restart` replaces a process of a running store; `silo reload` has it read its settings
again, or replaces its code.
"""

from __future__ import annotations

from pathlib import Path

import click

from ...client.admin.admin import Admin
from ..shared.common import json_option, put_json, put_line, say, store_option

_RESTART_EPILOG = """\b
Examples:
  silo restart append
  silo restart registry --store /var/lib/silomq --json
"""
_RELOAD_EPILOG = """\b
Examples:
  silo reload
  pip install --upgrade silomq && silo reload --code
  silo reload --code --trial 60 --store /var/lib/silomq
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


@click.command(
    epilog=_RELOAD_EPILOG, short_help="Have a running store read its settings, or new code."
)
@click.option("--code", is_flag=True, help="Replace the code of all processes instead.")
@click.option(
    "--trial",
    type=click.FloatRange(0, 3600),
    metavar="SECONDS",
    help="How long new processes must run before they are kept. Default: 5.",
)
@store_option
@json_option
def reload(store: Path, trial: float | None, *, code: bool, as_json: bool) -> None:
    """Have a running store read its settings again, as SIGHUP does.

    All are checked first: if one is wrong, nothing changes. Those that may change at run time take
    effect at once, and those that need a restart are named.

    With --code all processes, the supervisor too, are replaced by the code that is installed now,
    one after another, while clients go on. If the new code does not come up, the old code runs on,
    and the command says why. Settings are not read again. Ctrl-C ends the command, not the change.

    Only the store's user and root may do this.
    """
    if not code:
        if trial is not None:
            raise click.UsageError("--trial goes with --code")
        with Admin(store) as admin:
            text = admin.reload()
        put_json({"outcome": text}) if as_json else put_line(text)
        return
    with Admin(store) as admin:
        stalls = admin.reload_code(trial_s=5.0 if trial is None else trial, say=say)
    name, longest = max(stalls.items(), key=lambda stall: stall[1])
    if as_json:
        put_json({"stalls_ms": stalls})
    else:
        put_line(f"all processes run the new code; the longest stall was {longest:.1f} ms ({name})")
