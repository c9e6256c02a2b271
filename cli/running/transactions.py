"""`silo transactions`: the open transactions of a store, and their end by hand."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import click

from ...client.errors import StoreClosed
from ...client.transactions.open_transactions import (
    OpenTransaction,
    end_transaction,
    open_transactions,
)
from ..shared.common import json_option, output, put_json, put_line, say, store_option
from ..shared.reader import is_stopped, open_stopped
from ..shared.tables import duration, plain_table

_EPILOG = """\b
Examples:
  silo transactions
  silo transactions --group shop --json
  silo transactions commit 7F0000010B1218B4AAC2469E4D060000
  silo transactions rollback 7F0000010B1218B4AAC2469E4D060000
"""


@click.group(
    invoke_without_command=True,
    epilog=_EPILOG,
    short_help="Show open transactions; commit them or roll them back by hand.",
)
@click.option("--group", help="Only those of this producer group.")
@store_option
@json_option
@click.pass_context
def transactions(context: click.Context, group: str | None, store: Path, *, as_json: bool) -> None:
    """List the transactions that nobody has committed or rolled back, the oldest first. A stopped
    store's are listed too.

    Checks is how often the store has asked the producers of the group.
    """
    if context.invoked_subcommand is not None:
        context.default_map = {name: {"as_json": as_json} for name in transactions.commands}
        return
    found = [one for one in _open(store) if group in (None, one.group)]
    now_ms = time.time_ns() // 1_000_000
    if as_json:
        put_json([_fields(one, now_ms) for one in found], indent=2)
        return
    columns = ("Message id", "Group", "Topic", "QID", "Age", "Checks")
    table = plain_table("", *columns, right=(3, 4, 5))
    for one in found:
        age = duration(_age_ms(one, now_ms) / 1000)
        where = (one.topic, str(one.queue_id))
        table.add_row(one.message_id or "-", one.group, *where, age, str(one.checks))
    output().print(table)
    put_line("")
    put_line(f"Open: {len(found):,}")


def _open(store: Path) -> list[OpenTransaction]:
    try:
        return open_transactions(store)
    except StoreClosed:
        if not is_stopped(store):
            raise
    open_stopped(store).close()  # says that the store does not run
    return open_transactions(store, stopped=True)


def _age_ms(one: OpenTransaction, now_ms: int) -> int:
    return max(0, now_ms - one.born_timestamp)


def _fields(one: OpenTransaction, now_ms: int) -> dict[str, object]:
    return {**dataclasses.asdict(one), "age_ms": _age_ms(one, now_ms)}


@transactions.command(epilog="Example: silo transactions commit 7F0000010B1218B4AAC2469E4D060000")
@click.argument("message_id")
@store_option
@json_option
def commit(message_id: str, store: Path, *, as_json: bool) -> None:
    """Commit the open transaction of the message MESSAGE_ID (its UNIQ_KEY), in the place of its
    producers. Consumers see the message some milliseconds later.
    """
    _end(message_id, store, commit=True, as_json=as_json)


@transactions.command(epilog="Example: silo transactions rollback 7F0000010B1218B4AAC2469E4D060000")
@click.argument("message_id")
@store_option
@json_option
def rollback(message_id: str, store: Path, *, as_json: bool) -> None:
    """Roll back the open transaction of the message MESSAGE_ID (its UNIQ_KEY), in the place of its
    producers. No consumer will see the message.
    """
    _end(message_id, store, commit=False, as_json=as_json)


def _end(message_id: str, store: Path, *, commit: bool, as_json: bool) -> None:
    one, _ = end_transaction(store, message_id, commit=commit)
    word = "committed" if commit else "rolled back"
    if as_json:
        put_json({**_fields(one, time.time_ns() // 1_000_000), "decision": word})
    else:
        say(f"the transaction of group {one.group} for topic {one.topic} is {word}")
