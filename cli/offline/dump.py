"""`silo dump`: shows the content of a store's files, damaged or not. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from ...conf.printable import escape_json, printable, printable_json
from ..shared.common import json_option, put_line, put_text, say
from .tooling import bad_input_is_usage, settings_of, store_argument

F = TypeVar("F", bound=Callable[..., Any])

#: A longer value is cut on a line for people.
_WIDEST = 80
_OWN_WORDS = frozenset(("kind", "wrong"))
_EPILOG = """\b
Examples:
  silo dump commitlog ./store --offset 4096 --count 10
  silo dump consumequeue ./store --topic orders --queue 0 --json
  silo dump record ./store 4096
  silo dump manifest ./store --set mapped_file_size_commit_log=65536
"""
_MANIFEST_EPILOG = """\b
Times are epoch milliseconds. Kinds of lines: store, blank, queue, msg, time, key.
Where RocketMQ's answer differs from the exact one:
  time  RocketMQ: the message nearest in time, in the first file modified at that time or later;
        --exact: the first message stored at that time or later
  key   RocketMQ's index compares hashes and whole seconds, so it misses messages at the edges
        of the window, returns others whose keys collide, and one message twice;
        --exact: the newest messages that have the key and were stored in the window
"""


def _range_options(command: F) -> F:
    for option in (
        click.option(
            "--count", type=click.IntRange(min=0), help="At most this many.  [default: all]"
        ),
        click.option(
            "--offset", type=click.IntRange(min=0), help="Where to begin.  [default: the start]"
        ),
    ):
        command = option(command)
    return command


@click.group(epilog=_EPILOG, short_help="Show the content of a store's files.")
def dump() -> None:
    """Show the content of a store's files, damage included. Nothing is written."""


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

    The output of two stores, or of two programs, can be compared line by line. Nothing is written.
    """
    settings = settings_of(config_file, overrides, store)
    from ...tools.rocketmq.manifest import KeyQuery, TimeQuery
    from ...tools.rocketmq.manifest import manifest as lines
    from ...tools.rocketmq.view import StoreView

    with bad_input_is_usage():
        time_queries = [TimeQuery.parse(text) for text in times]
        key_queries = [KeyQuery.parse(text) for text in keys]
        view = StoreView(store, settings)
        for line in lines(view, time_queries, key_queries, exact=exact):
            put_text(escape_json(line))
        for problem in view.log.problems:
            say(f"silo: {problem}")


def _put(pieces: Iterable[dict[str, Any]], *, as_json: bool) -> None:
    """Prints pieces as lines: JSON, or `name=value` with what is wrong at the end."""
    for piece in pieces:
        if as_json:
            put_text(printable_json(piece))
            continue
        words = [str(piece["kind"])]
        words += [
            f"{name}={_shown(value)}" for name, value in piece.items() if name not in _OWN_WORDS
        ]
        if "wrong" in piece:
            words.append(f"WRONG: {piece['wrong']}")
        put_line(" ".join(words))


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{printable(str(name))}: {_shown(v)}" for name, v in value.items())
            + "}"
        )
    text = printable(str(value))
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."


@dump.command(short_help="Show the records of the commit log.")
@store_argument
@_range_options
@json_option
def commitlog(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    offset: int | None,
    count: int | None,
    *,
    as_json: bool,
) -> None:
    """Show records, end-of-file records, damage and the tail of STORE's log, a line each.

    --offset is an address in the log: the first record at or after it is shown first.
    """
    settings = settings_of(config_file, overrides, store)
    from ...tools import dump as tool
    from ...tools.raw.files import StoreFiles

    with bad_input_is_usage():
        files = StoreFiles(store, settings)
        _put(tool.dump_commitlog(files, offset, count), as_json=as_json)


@dump.command(short_help="Show one record.")
@store_argument
@click.argument("offset", type=click.IntRange(min=0))
@json_option
def record(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    offset: int,
    *,
    as_json: bool,
) -> None:
    """Show all fields of the record at address OFFSET of STORE's log."""
    settings = settings_of(config_file, overrides, store)
    from ...tools import dump as tool
    from ...tools.raw.files import StoreFiles

    with bad_input_is_usage():
        piece = tool.dump_record(StoreFiles(store, settings), offset)
    if as_json:
        put_text(printable_json(piece))
        return
    for name, value in piece.items():
        if isinstance(value, dict):
            for key, text in value.items():
                put_line(f"{name}.{printable(key)}: {printable(text)}")
        else:
            put_line(f"{name}: {printable(str(value))}")


@dump.command(short_help="Show the entries of consume queues.")
@store_argument
@click.option("--topic", help="Only this topic.")
@click.option("--queue", "queue_id", type=int, help="Only queues of this number.")
@_range_options
@json_option
def consumequeue(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    *,
    topic: str | None,
    queue_id: int | None,
    offset: int | None,
    count: int | None,
    as_json: bool,
) -> None:
    """Show the entries of STORE's queues. --offset is a queue offset, --count is of each queue."""
    settings = settings_of(config_file, overrides, store)
    from ...tools import dump as tool
    from ...tools.raw.files import StoreFiles

    with bad_input_is_usage():
        files = StoreFiles(store, settings)
        _put(tool.dump_queues(files, topic, queue_id, offset, count), as_json=as_json)


@dump.command(short_help="Show the index files.")
@store_argument
@_range_options
@json_option
def index(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    offset: int | None,
    count: int | None,
    *,
    as_json: bool,
) -> None:
    """Show header and entries of STORE's index files. --offset is an entry's number, --count is of
    each file.
    """
    settings = settings_of(config_file, overrides, store)
    from ...tools import dump as tool
    from ...tools.raw.files import StoreFiles

    with bad_input_is_usage():
        _put(tool.dump_index(StoreFiles(store, settings), offset, count), as_json=as_json)


@dump.command(short_help="Show the checkpoint.")
@store_argument
@json_option
def checkpoint(
    store: Path, config_file: Path | None, overrides: tuple[str, ...], *, as_json: bool
) -> None:
    """Show the times (epoch ms) and offsets of STORE's checkpoint."""
    settings = settings_of(config_file, overrides, store)
    from ...tools import dump as tool
    from ...tools.raw.files import StoreFiles

    with bad_input_is_usage():
        _put([tool.dump_checkpoint(StoreFiles(store, settings))], as_json=as_json)
