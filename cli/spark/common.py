"""What the commands of `silo spark` share: their options, a session with a progress bar, tables."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..offline.tooling import bad_input_is_usage
from ..shared.common import config_option, json_option, output, say, set_option
from ..shared.outcome import Exit, Failure
from ..shared.tables import plain_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])
_INSTALL = "pip install 'silomq[spark]'"


def job_options(command: F) -> F:
    """The options that all jobs take."""
    for option in (
        config_option,
        set_option("A setting of the stores; only file sizes matter here"),
        click.option(
            "--conf",
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of Spark, such as spark.driver.memory=4g; may be repeated.",
        ),
        click.option(
            "--master",
            default="local[*]",
            show_default=True,
            metavar="URL",
            help="Where the job runs: Spark's master.",
        ),
        json_option,
    ):
        command = option(command)
    return command


stores_argument = click.argument(
    "stores",
    nargs=-1,
    required=True,
    type=click.Path(readable=False),
    metavar="STORE...",
)
store_argument = click.argument("store", type=click.Path(readable=False), metavar="STORE")
parquet_option = click.option(
    "--parquet", type=click.Path(), metavar="DIR", help="Also write the tables to Parquet here."
)


@contextlib.contextmanager
def job(what: str, master: str, conf: tuple[str, ...]) -> Iterator[SparkSession]:
    """A session for the job, with a progress bar on a terminal. Errors of its tasks become
    Failures.
    """
    try:
        import pyspark  # noqa: F401  its error comes before anything is started
        from py4j.protocol import Py4JError

        from ...pipeline.jobs.tasks import explained, watched
        from ...pipeline.spark.session import session
    except ImportError as error:
        raise Failure(
            Exit.FAILED, f"silo spark needs {error.name}, which is not installed: {_INSTALL}"
        ) from error
    from pyspark.errors import PySparkException
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    pairs = [item.partition("=") for item in conf]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.UsageError(f"--conf {name}: write it as NAME=VALUE")
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with bar, bad_input_is_usage():
        task = bar.add_task(what, total=None)
        try:
            active = session(f"silo {what}", master=master, **{n: v for n, _, v in pairs})
            with watched(active, lambda done, total: bar.update(task, completed=done, total=total)):
                yield active
        except (PySparkException, Py4JError) as error:
            raise Failure(Exit.FAILED, f"{what}: {explained(error)}") from error


def real_paths(stores: tuple[str, ...]) -> list[str]:
    """The stores' folders as the data source names them. Raises BadInput for a folder that is no
    store.
    """
    from ...store.disk.files import is_folder
    from ...store.disk.paths import COMMIT_LOG
    from ...tools.raw.files import BadInput

    found = [os.path.realpath(store) for store in stores]
    for path in found:
        if not is_folder(f"{path}/{COMMIT_LOG}"):
            raise BadInput(f"{path} is no store: it has no folder {COMMIT_LOG}")
    return found


def located(place: str) -> str:
    """A folder as an absolute path, because tasks run in other folders; a URL unchanged."""
    return place if "://" in place else os.path.abspath(place)


def print_table(title: str, rows: list[dict[str, Any]], most: int = 30) -> None:
    """Prints rows as a table on stdout. A long table is cut, which a message says."""
    from ...pipeline.jobs.report import text_of

    if not rows:
        return
    numbers = [i for i, value in enumerate(rows[0].values()) if isinstance(value, int | float)]
    table = plain_table(title, *rows[0], right=tuple(numbers))
    for row in rows[:most]:
        table.add_row(*(text_of(value) for value in row.values()))
    output().print(table)
    if len(rows) > most:
        say(f"silo: the first {most} of {len(rows):,} rows; --json or --parquet gives all")


def plain(tables: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Rows in a form for JSON: times as ISO 8601."""
    return {
        name: [
            {key: v.isoformat() if hasattr(v, "isoformat") else v for key, v in row.items()}
            for row in rows
        ]
        for name, rows in tables.items()
    }
