"""What several commands share: options, and the form of values on a terminal and in JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_STORE = "store"
STORE_VARIABLE = "SILOMQ_STORE_PATH"
_WIDE = 1000


def store_option(command: F) -> F:
    """`--store DIR`: the folder of the store."""
    return click.option(
        "--store",
        type=click.Path(path_type=Path, readable=False),  # the store gives a better message
        default=DEFAULT_STORE,
        envvar=STORE_VARIABLE,
        show_envvar=True,
        show_default=True,
        metavar="DIR",
        help="Folder of the store.",
    )(command)


def config_option(command: F) -> F:
    """`--config FILE`: settings from a file."""
    return click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path, readable=False),
        envvar="SILOMQ_CONFIG",
        show_envvar=True,
        metavar="FILE",
        help="TOML file with settings.",
    )(command)


def set_option(text: str) -> Callable[[F], F]:
    """`--set NAME=VALUE`, any number of times."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="NAME=VALUE",
        help=f"{text}; may be repeated.",
    )


def json_option(command: F) -> F:
    """`--json`: output for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def output() -> Console:
    """Standard output for tables. If it is no terminal, lines are not folded, so that programs can
    read each row as one line.
    """
    from rich.console import Console

    wide = None if sys.stdout.isatty() else _WIDE
    return Console(highlight=False, markup=False, width=wide)


def say(text: str) -> None:
    """Prints a message to stderr, so that stdout holds only data."""
    print(text, file=sys.stderr, flush=True)


def put_line(text: str) -> None:
    """Prints a line of data, as UTF-8 in any locale."""
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")


def put_json(value: object, *, indent: int | None = None) -> None:
    """Prints a value as JSON: on one line for streams, indented for a single answer."""
    put_line(json.dumps(value, ensure_ascii=False, indent=indent))


def printable(data: str | bytes) -> str:
    """Text for one line of a terminal: characters that are not printable, and bytes that are not
    UTF-8, are escaped.
    """
    text = data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
