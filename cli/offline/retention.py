"""`silo retention explain`: why each commit-log file stays or goes, and when. Never writes."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ..shared.common import json_option, output, put_json, say
from ..shared.tables import plain_table
from .tooling import bad_input_is_usage, settings_of, store_argument

_EPILOG = """\b
Examples:
  silo retention explain ./store
  silo retention explain /var/lib/silomq/store --config /etc/silomq/silomq.toml
  silo retention explain ./store --set file_reserved_time_h=24   # what if
"""


@click.group()
def retention() -> None:
    """Explain which files of a store go, and when."""


@retention.command(epilog=_EPILOG, short_help="Why each commit-log file stays or goes, and when.")
@store_argument
@json_option
def explain(
    store: Path, config_file: Path | None, overrides: tuple[str, ...], *, as_json: bool
) -> None:
    """Show for each commit-log file of STORE why it stays or goes, and when.

    Give the settings that the store runs with. The store may run. Nothing is changed.
    """
    settings = settings_of(config_file, overrides, store)
    from ...tools.retention import explain as look

    with bad_input_is_usage():
        found = look(str(store), settings)
    if as_json:
        put_json(found.as_dict(), indent=2)
        return
    table = plain_table("", "file", "", "goes", "why", right=(0,))
    for file in found.files:
        when = "not known" if file.when_ms is None else _time(file.when_ms)
        if file.why == "end":
            when = "-"
        # The file's name is this offset in twenty digits.
        table.add_row(f"{file.base:,}", "goes" if file.goes else "stays", when, file.about)
    output().print(table)
    for note in found.notes:
        say(f"silo: {note}")


def _time(epoch_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(epoch_ms / 1000))
