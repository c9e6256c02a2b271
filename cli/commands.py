"""The group `silo` of all commands."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click

from .. import __version__

#: The module below this folder of each command. A module is imported when its command is needed:
#: all of them would take three times as long as most commands run.
_MODULES: Final = {
    "serve": "running.serve",
    "dev": "running.dev",
    "send": "running.send",
    "request": "running.request",
    "tail": "running.tail",
    "query": "running.query",
    "status": "running.status",
    "topics": "running.topics",
    "delete-topic": "running.topics",
    "groups": "running.groups",
    "reset-offset": "running.groups",
    "delete-group": "running.groups",
    "transactions": "running.transactions",
    "top": "running.top",
    "metrics": "running.metrics",
    "restart": "running.changes",
    "reload": "running.changes",
    "clean": "running.clean",
    "config": "running.serve",
    "names": "running.names",
    "broker": "running.broker",
    "acl": "running.acl",
    "doctor": "offline.doctor",
    "retention": "offline.retention",
    "dump": "offline.dump",
    "verify": "offline.verify",
    "repair": "offline.repair",
    "backup": "offline.backup",
    "backups": "offline.backup",
    "restore": "offline.backup",
    "spark": "spark.spark",
    "bench": "bench.bench",
    "systemd": "systemd.systemd",
}

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


class _Commands(click.Group):
    """The group of all commands, each of which is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, None if there is none."""
        if cmd_name not in _MODULES:
            return None
        module = import_module(f".{_MODULES[cmd_name]}", __package__)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command


@click.group(
    cls=_Commands,
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
