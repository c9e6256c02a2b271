"""What several commands share: options, and the form of values on a terminal and in JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ...conf.printable import printable, printable_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

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
        callback=_store_of_group,
        help="Folder of the store.",
    )(command)


def _store_of_group(context: click.Context, _option: click.Parameter, store: Path) -> Path:
    """The store that was named before a subcommand, unless one was named behind it: what is typed
    has precedence over the environment.
    """
    outer = context.parent
    while outer is not None:
        here, there = (each.get_parameter_source("store") for each in (context, outer))
        if ParameterSource.COMMANDLINE in (here, there):
            return store if here is ParameterSource.COMMANDLINE else Path(outer.params["store"])
        outer = outer.parent
    return store


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
    from rich.segment import Segment

    class SafeConsole(Console):
        """Passes on nothing that a terminal would obey, but its own styles."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable(text, "\n"), style, control)

    wide = None if sys.stdout.isatty() else _WIDE
    return SafeConsole(highlight=False, markup=False, width=wide)


def say(text: str) -> None:
    """Prints a message to stderr, so that stdout holds only data. It may have several lines."""
    print(printable(text, "\n"), file=sys.stderr, flush=True)


def put_line(text: str) -> None:
    """Prints a line of data, as UTF-8 in any locale. All that is not printable is escaped, line
    ends too.
    """
    sys.stdout.buffer.write(printable(text).encode() + b"\n")


def put_text(text: str) -> None:
    """As `put_line`, for text of our own that has several lines."""
    sys.stdout.buffer.write(printable(text, "\n").encode() + b"\n")


def put_json(value: object, *, indent: int | None = None) -> None:
    """Prints a value as JSON: on one line for streams, indented for a single answer."""
    put_text(printable_json(value, indent=indent))
