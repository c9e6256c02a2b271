"""A session's page of reads: a reading client counts there what it does.

Clients read the store's files themselves, so nobody else sees it. The registry makes the page (a
sealed memfd, `sealed.py`) for the session that asks, maps it, and adds the growth of all pages to
its own counters once a second. A client can spoil these sums and nothing else.

Layout reads:

======  ====  ====  ========  =======
offset  size  type  field     meaning
======  ====  ====  ========  =======
0       8     u64   found     client: reads that found messages
8       8     u64   missed    client: reads that found none
16      8     u64   messages  client: messages that they found
======  ====  ====  ========  =======
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ._words import OwnedWord, Word

if TYPE_CHECKING:
    from typing_extensions import Buffer

SIZE: Final = 4096
READS: Final[dict[str, tuple[int, int]]] = {"found": (0, 8), "missed": (8, 8), "messages": (16, 8)}
LAYOUTS = {"reads": READS}
#: Layout -> field -> writer.
WRITERS = {"reads": dict.fromkeys(READS, "client")}
#: No client reads so many messages in a second. A larger growth is that of a spoilt page.
MOST_GROWTH: Final = 1 << 40


class OwnReads:
    """The page in `memory`, for the client that counts on it."""

    def __init__(self, memory: Buffer) -> None:
        self._found, self._missed, self._messages = (
            OwnedWord(memory, at) for at, _ in READS.values()
        )

    def find(self, messages: int) -> None:
        """Counts a read that found messages."""
        self._found.add(1)
        self._messages.add(messages)

    def miss(self) -> None:
        """Counts a read that found none."""
        self._missed.add(1)

    def add(self, found: int, missed: int, messages: int) -> None:
        """Counts several reads: those that found messages, those that found none."""
        self._found.add(found)
        self._missed.add(missed)
        self._messages.add(messages)


class Reads:
    """The page in `memory`, for the registry."""

    def __init__(self, memory: Buffer) -> None:
        self._words = [Word(memory, at) for at, _ in READS.values()]
        self._seen = [0] * len(self._words)

    def growth(self) -> list[int]:
        """What was added since the last call, in the order of the layout; 0 for a word that only a
        client has which spoils its page.
        """
        now = [word.load() for word in self._words]
        grown = [value - before for value, before in zip(now, self._seen, strict=True)]
        self._seen = now
        return [growth if 0 <= growth < MOST_GROWTH else 0 for growth in grown]
