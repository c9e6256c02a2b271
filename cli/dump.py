"""`silo dump`: what stands in the files of a store, damaged or not. Never writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from .common import put_line, say
from .tooling import bad_input_is_usage, settings_of, store_argument

F = TypeVar("F", bound=Callable[..., Any])

_EPILOG = """\b
Examples:
  silo dump commitlog ./store --offset 4096 --count 10
  silo dump consumequeue ./store --topic orders --queue 0 --json
  silo dump record ./store 4096
  silo dump manifest ./store --set mapped_file_size_commit_log=65536
"""
_MANIFEST_EPILOG = """\b
Times are epoch milliseconds. Kinds of lines: store, blank, queue, msg, time, key.
Where RocketMQ's answer is not the exact one:
  time  it gives the entry nearest in time, of the first file written to since;
        --exact: the first message stored at that time or later
  key   the index compares hashes and whole seconds, so it misses messages at the edges
        of the window, returns others whose keys collide, and one message twice;
        --exact: the newest messages that have the key and were stored in the window
"""


def _range_options(command: F) -> F:
    for option in (
        click.option(
            "--count", type=click.IntRange(min=0), help="At most so many.  [default: all]"
        ),
        click.option(
            "--offset", type=click.IntRange(min=0), help="Where to begin.  [default: the start]"
        ),
    ):
        command = option(command)
    return command


@click.group(epilog=_EPILOG, short_help="Show what stands in a store's files.")
def dump() -> None:
    """Show what stands in the files of a store. Nothing is written, damage is shown and skipped."""


@dump.command(epilog=_MANIFEST_EPILOG, short_help="Show all that a store serves, line by line.")
@store_argument
@click.option("--time", "times", multiple=True, metavar="TOPIC,QUEUE,TS", help="Look up a time.")
@click.option(
    "--key", "keys", multiple=True, metavar="TOPIC,KEY,MAX,BEGIN,END", help="Look up a key."
)
@click.option(
    "--exact/--like-rocketmq",
    default=False,
    help="Answer time and key look-ups exactly, or as RocketMQ 4.4 does.  [default: like RocketMQ]",
)
def manifest(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    times: tuple[str, ...],
    keys: tuple[str, ...],
    *,
    exact: bool,
) -> None:
    """Show all that STORE would serve after its recovery, one JSON object a line.

    Two stores, or two programs, compare line by line. Nothing is written.
    """
    settings = settings_of(config_file, overrides)
    from ..tools.manifest import KeyQuery, TimeQuery
    from ..tools.manifest import manifest as lines
    from ..tools.view import StoreView

    with bad_input_is_usage():
        time_queries = [TimeQuery.parse(text) for text in times]
        key_queries = [KeyQuery.parse(text) for text in keys]
        view = StoreView(store, settings)
        for line in lines(view, time_queries, key_queries, exact=exact):
            put_line(line)
        for problem in view.log.problems:
            say(f"silo: {problem}")
