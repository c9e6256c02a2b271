"""The right to write words of shared memory: every word has one writer.

The layout tables name the writer of a field at the start of its meaning ("append: ..."). A field
without a writer is written once, by the process that makes the memory. The module that owns a
layout repeats the writers in code (`WRITERS`); a test compares both.

`Control`, `TopicTable` and `Ring` take the *role* of the process that uses them. A role is the name
of an actor, "supervisor", "producer", or one of the two below. They return handles that can store
only for words of the role, and raise NotTheWriter for other words. The check is made once for each
handle, not for each message.

The compiled kernels map whole segments, because they read words of many writers. Their stores are
checked in the source: tests/tidy/test_writers.py reads each `silo_store`.
"""

from __future__ import annotations

from typing import Final

#: The process that makes memory which no other process uses yet. It may write every word. For the
#: control block and the topic table that is the supervisor until it forks the first actor.
STARTUP: Final = "startup"
#: A process that writes nothing: clients, tools.
READER: Final = "reader"


class NotTheWriter(Exception):
    """A process asked for a handle that can store to another process's word."""

    def __init__(self, word: str, writer: str, asker: str) -> None:
        super().__init__(f"{word} is written by {writer} alone, and {asker} asked to write it")


def check_writer(word: str, writer: str, asker: str) -> None:
    """Raises NotTheWriter unless the role `asker` may write `word`, which is `writer`'s."""
    if asker not in (writer, STARTUP):
        raise NotTheWriter(word, writer, asker)
