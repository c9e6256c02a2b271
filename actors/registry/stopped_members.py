"""Members whose process is stopped: by SIGSTOP, in a debugger, with a frozen virtual machine.

Such a member keeps its connection, so the registry must ask. It changes the member's notice word.
A member that runs answers: its reader with `sync`, or, while that one is in a callback, a thread of
its own with `busy` (`client/groups/sign_of_life.py`). The registry asks in two cases: when it
revokes a queue, and when a member does not acknowledge anything although messages wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ...store.groups.ack_file import Queue
from ...store.topics.topic_table import TopicTable
from .group_offsets import GroupProgress, ends_of
from .members import Member, Members


def ask_the_quiet(
    members: Members,
    progress: GroupProgress,
    table: TopicTable,
    notify: Callable[[Member], None],
) -> None:
    """Asks the members for a sign of life that have messages to read, and have acknowledged nothing
    since the last call. `progress` was saved just before. `notify` wakes a member.

    Nobody asks a member that is alone in its group. No other member could have its queues, and
    whoever looks at its process with a debugger would lose the session.
    """
    now = time.monotonic()
    sizes: dict[str, int] = {}
    for member in members.values():
        sizes[member.about.group] = sizes.get(member.about.group, 0) + 1
    ends = table.queue_column("max_offset")
    for member in members.values():
        if not member.exclusive or sizes[member.about.group] == 1:
            continue
        offsets = progress.last_saved.get(member.number, {})
        if offsets != member.offsets:
            member.offsets = offsets
            member.hear(now)
        elif not member.silent_since and _lags(offsets, table, ends):
            member.ask(now)
            notify(member)


def _lags(offsets: dict[Queue, int], table: TopicTable, ends: list[int]) -> bool:
    """Whether one of the queues has messages at or behind the member's offset."""
    return any(
        end > offset
        for end, offset in zip(ends_of(table, offsets, ends), offsets.values(), strict=True)
    )
