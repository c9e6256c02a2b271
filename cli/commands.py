"""The group `silo` of all commands. Importing it takes longest of what a command does at first."""

from __future__ import annotations

import click

from .. import __version__
from .bench.bench import bench
from .offline.backup import backup, backups, restore
from .offline.doctor import doctor
from .offline.dump import dump
from .offline.repair import repair
from .offline.retention import retention
from .offline.verify import verify
from .running.acl import acl
from .running.broker import broker
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
    *(top, metrics, doctor, clean, retention, config, dump, verify, repair),
    *(backup, backups, restore),
    *(spark, names, broker, acl, bench, systemd),
):
    silo.add_command(_command)
