"""Who may write which word of shared memory: every word has one writer.

The layout tables name the writer of a field at the start of its meaning ("append: ..."). A field
without a writer is written once, by the process that makes the memory. The module that owns a
layout repeats the writers in code (`WRITERS`); a test compares both.

A process says once who it is: `Control`, `TopicTable` and `Ring` take its *role*. A role is the
name of an actor, "supervisor", "producer", or one of the two below. Handles that can store are
given out by role; another's word is refused with NotTheWriter. The check costs something only when
a handle is made, never per message.

The compiled kernels map whole segments, because they read words of many writers. What they store
to is checked in their source: tests/tidy/test_writers.py reads each `silo_store`.
"""

from __future__ import annotations

from typing import Final

#: The process that makes memory which no other process uses yet. It may write every word. For the
#: control block and the topic table that is the supervisor until it forks the first actor.
STARTUP: Final = "startup"
#: A process that writes nothing: clients, tools.
READER: Final = "reader"


class NotTheWriter(Exception):
    """A process asked to write a word that another process owns."""

    def __init__(self, word: str, writer: str, asker: str) -> None:
        super().__init__(f"{word} is written by {writer} alone, and {asker} asked to write it")


def check_writer(word: str, writer: str, asker: str) -> None:
    """Raises NotTheWriter unless the role `asker` may write `word`, which is `writer`'s."""
    if asker not in (writer, STARTUP):
        raise NotTheWriter(word, writer, asker)
