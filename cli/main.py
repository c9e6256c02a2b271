"""The `silo` command: runs a subcommand. Every error becomes one sentence and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from .. import __version__
from ..conf.standard_streams import open_missing
from .bench.bench import bench
from .offline.backup import backup, backups, restore
from .offline.dump import dump
from .offline.repair import repair
from .offline.verify import verify
from .running.acl import acl
from .running.broker import broker
from .running.changes import reload, restart
from .running.clean import clean
from .running.dev import dev
from .running.groups import delete_group, groups, reset_offset
from .running.metrics import metrics
from .running.names import names
from .running.query import query
from .running.request import request
from .running.send import send
from .running.serve import config, serve
from .running.status import status
from .running.tail import tail
from .running.top import top
from .running.topics import delete_topic, topics
from .running.transactions import transactions
from .shared.outcome import Exit, tell
from .spark.spark import spark
from .systemd.systemd import systemd

_EPILOG = """\b
Exit status:
  0    done
  1    failed
  2    wrong usage, or a message, topic or queue that the store refuses
  3    a setting is wrong
  4    another process has locked the store
  5    data of the store is corrupt
  6    the disk is full
  130  ended by Ctrl-C
"""


@click.group(
    invoke_without_command=True,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="silo")
@click.pass_context
def silo(context: click.Context) -> None:
    """Run a SiloMQ message store, and send to it and read from it.

    Data goes to stdout, everything else to stderr.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (
    *(serve, dev, send, request, tail, query, status, topics, delete_topic),
    *(groups, reset_offset, delete_group, transactions),
    *(top, metrics, restart, reload, clean, config, dump, verify, repair, backup, backups, restore),
    *(spark, names, broker, acl, bench, systemd),
):
    silo.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with `arguments` (default: the process's own). Returns its exit status."""
    open_missing()
    if "_SILO_COMPLETE" in os.environ:
        return _complete(os.environ["_SILO_COMPLETE"])
    try:
        status = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has ended, as `head` does: that is no error, and no message is
        # needed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except Exception as error:  # tracebacks are only for users who ask for them
        if os.environ.get("SILO_TRACEBACK"):
            raise
        return tell(error)
    return status


def _run(arguments: list[str]) -> int:
    """Does the work of click's own `main`, which would handle broken pipes and Ctrl-C in another
    way.
    """
    try:
        with silo.make_context("silo", arguments) as context:
            status = silo.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return status if isinstance(status, int) else Exit.OK


def _complete(instruction: str) -> int:
    """Shell completion: eval "$(_SILO_COMPLETE=bash_source silo)"."""
    from click.shell_completion import shell_complete

    return shell_complete(silo, {}, "silo", "_SILO_COMPLETE", instruction)


if __name__ == "__main__":
    sys.exit(main())
