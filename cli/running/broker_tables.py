"""What `silo status` shows of the brokers that serve a store."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from ..shared.tables import duration, plain_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType
    from rich.table import Table

#: A broker writes once a second. One that has written nothing for so long (s) is stuck.
_STUCK_S: Final = 5.0
#: Topics of a group that are shown.
_TOPICS: Final = 5


def broker_parts(brokers: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """What is shown of each broker, from top to bottom."""
    for broker in brokers:
        if broker["problem"]:
            yield f"{_whose(broker).capitalize()}: no broker's status"
            continue
        yield _head(broker)
        yield from (_figures(broker), _requests(broker))
        if broker["refused"]:
            yield _refused(broker)
        if broker["groups"]:
            yield _groups(broker)
        if any(group["members"] for group in broker["groups"]):
            yield _members(broker)


def broker_warnings(brokers: list[dict[str, Any]]) -> Iterator[str]:
    """What an operator must see, in sentences."""
    for broker in brokers:
        if broker["problem"]:
            yield f"{_whose(broker)} shows no broker's status: {broker['problem']}"
            continue
        silent_s = time.time() - broker["written_ms"] / 1000
        if silent_s > _STUCK_S:
            yield f"broker {broker['name']} has shown nothing new for {duration(silent_s)}"
        for server in broker["name_servers"]:
            if server["state"] == "failed":
                yield (
                    f"name server {server['address']} does not know broker {broker['name']}: "
                    f"{server['problem']}"
                )


def _whose(broker: dict[str, Any]) -> str:
    if not broker["session"]:
        return "a further session"
    return f"session {broker['session']} of user {broker['uid']}"


def _head(broker: dict[str, Any]) -> str:
    up = duration(time.time() - broker["started_ms"] / 1000)
    told = "" if broker["told"] == broker["listens"] else f", clients are told {broker['told']}"
    return (
        f"Broker {broker['name']} of {broker['cluster']}: {broker['listens']}{told}, pid "
        f"{broker['pid']}, up {up}"
    )


def _figures(broker: dict[str, Any]) -> Table:
    table = plain_table("", "broker", "value", right=(1,))
    for name, label in (
        ("connections", "connections"),
        ("messages_sent", "messages sent"),
        ("messages_pulled", "messages pulled"),
        ("pulls_found", "pulls that found messages"),
        ("pulls_missed", "pulls that found none"),
        ("held_pulls", "held pulls"),
        ("put_ms_99", "ms of a put, 99 of 100"),
        ("put_ms_longest", "ms of the longest put"),
        ("bytes_in", "bytes in"),
        ("bytes_out", "bytes out"),
        ("group_count", "consumer groups"),
        ("producer_group_count", "producer groups"),
    ):
        table.add_row(label, f"{broker[name]:,}")
    for server in broker["name_servers"]:
        table.add_row(f"name server {server['address']}", server["state"])
    for closed in broker["closed"]:
        table.add_row(f"closed: {closed['why']}", f"{closed['count']:,}")
    return table


def _requests(broker: dict[str, Any]) -> Table:
    table = plain_table("", "request", "count", "a second", right=(1, 2))
    for one in broker["requests"]:
        table.add_row(one["request"], f"{one['count']:,}", f"{one['per_second']:,.1f}")
    return table


def _refused(broker: dict[str, Any]) -> Table:
    table = plain_table("", "refused request", "answer", "count", right=(2,))
    for one in broker["refused"]:
        table.add_row(one["request"], one["answer"], f"{one['count']:,}")
    return table


def _groups(broker: dict[str, Any]) -> Table:
    table = plain_table("", "consumer group", "members", "model", "topics", right=(1,))
    for one in broker["groups"]:
        topics = one["topics"][:_TOPICS]
        more = one["topic_count"] - len(topics)
        shown = ", ".join(topics) + (f" and {more} more" if more > 0 else "")
        table.add_row(one["group"], f"{one['member_count']:,}", one["model"], shown)
    if (more := broker["group_count"] - len(broker["groups"])) > 0:
        table.add_row(f"and {more:,} more", "", "", "")
    return table


def _members(broker: dict[str, Any]) -> Table:
    table = plain_table("", "member", "consumer group", "language", "address")
    for group in broker["groups"]:
        for one in group["members"]:
            table.add_row(one["client_id"], group["group"], one["language"], one["address"])
        if (more := group["member_count"] - len(group["members"])) > 0:
            table.add_row(f"and {more:,} more", group["group"], "", "")
    return table
