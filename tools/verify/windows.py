"""The compiled check of records, with the queue files that it compares records with.

Queue files stay mapped, because the records of many queues lie side by side in the log. At most
MOST_WINDOWS are, so that the process stays below `vm.max_map_count`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from ...store.consumequeue.queue import ENTRY_SIZE
from ._log import LogCheck

if TYPE_CHECKING:
    from collections import Counter

    from .findings import Facts

#: Linux allows a process 65,530 mappings.
MOST_WINDOWS: Final = 30_000


def windows_of(facts: Facts) -> Windows:
    """Those of this thread."""
    found: Windows | None = getattr(facts.own, "windows", None)
    if found is None:
        found = facts.own.windows = Windows(facts)
    return found


class Windows:
    """The kernel of one thread, and the window that each of its queues has now."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.kernel = LogCheck(list(facts.files.settings.message_delay_level))
        self._queues: list[tuple[str, int]] = []
        #: By number of the queue: the base of its mapped file. The longest unused come first.
        self._mapped: OrderedDict[int, int] = OrderedDict()

    def add(self, topic: bytes, queue_id: int) -> None:
        """Makes a queue known to the kernel."""
        name = str(topic, "utf-8")
        below = self.facts.deleted_below.get(name, 0)
        self.kernel.add_queue(topic, queue_id, below)
        self._queues.append((name, queue_id))

    def map(self, number: int, queue_offset: int, matched: Counter[tuple[str, int, int]]) -> None:
        """Gives the kernel the file with an entry of a queue. Adds what the file before it had to
        `matched`.
        """
        files = self.facts.files
        position = queue_offset * ENTRY_SIZE
        base = position - position % files.queue_size
        queue = self._queues[number]
        view = None
        if base in self.facts.queue_bases.get(queue, ()):
            view = files.map(files.queue_path(*queue, base))
        self._take(number, matched)
        count = files.queue_size // ENTRY_SIZE
        self.kernel.set_window(number, view, base // ENTRY_SIZE, count)
        self._mapped[number] = base
        self._mapped.move_to_end(number)
        if len(self._mapped) > MOST_WINDOWS:
            oldest = next(iter(self._mapped))
            self._take(oldest, matched)
            self.kernel.set_window(oldest, None, 0, 0)
            del self._mapped[oldest]

    def collect(self, matched: Counter[tuple[str, int, int]]) -> None:
        """Adds the entries of all windows that were the right ones to `matched`."""
        for number in self._mapped:
            self._take(number, matched)

    def _take(self, number: int, matched: Counter[tuple[str, int, int]]) -> None:
        found = self.kernel.take_matched(number)
        if found:
            matched[(*self._queues[number], self._mapped[number])] += found
