"""`LeaseReader`: reads the messages that were leased to a member that pops."""

from __future__ import annotations

from typing import Final

from ...shm._words import MOST_WORDS, Word
from ...shm.protocol.pop_answers import PoppedLease
from ...shm.protocol.requests import Watch
from ...store.errors import Corrupt, CorruptRange, StoreError
from ...store.groups.leases import runs
from ...store.record.fields import with_more_reconsume_times
from .._bell import Bell
from ..consuming.cursor import Cursor
from ..consuming.message_view import MessageView
from ..consuming.store_view import StoreView
from ..errors import TopicDeleted
from ..session import Connection
from .popped_messages import ACKNOWLEDGED, UNSEEN, Settlings
from .subscription import Selection

#: A member sleeps on two more words than those of its queues.
_OTHER_WORDS: Final = 2


class LeaseReader:
    """The queues of a member's topics. `words` change when messages arrive in them."""

    def __init__(self, link: Connection, view: StoreView, selections: dict[str, Selection]) -> None:
        self._link = link
        self._view = view
        self._selections = selections
        self._cursors: dict[tuple[str, int], Cursor] = {}
        self._slots: dict[str, tuple[int, ...]] = {}
        self._bell: Bell | None = None
        self.words: list[Word] = []
        self._watch()

    def _watch(self) -> None:
        """Has reput wake this member for the queues of its topics."""
        table, control = self._link.table, self._link.control
        for topic in self._selections:
            found = table.find(topic)
            slots = () if found is None else found.slots[: found.read_queue_nums]
            if slots != self._slots.get(topic):
                self._slots[topic] = slots
                self._link.request(Watch(list(slots)))
                for key in [key for key in self._cursors if key[0] == topic]:
                    self._view.remove(self._cursors.pop(key))
        every = [slot for slots in self._slots.values() for slot in slots]
        self.words = [control.arrival(slot) for slot in every]
        if len(every) > MOST_WORDS - _OTHER_WORDS:
            self.words = [control.word("dispatched")]
        if self._bell is not None:
            self.watch_with(self._bell)

    def watch_with(self, bell: Bell) -> None:
        """Has the session's own bell rung for the queues of this member."""
        self._bell = bell
        bell.watch_none()
        for slots in self._slots.values():
            for slot in slots:
                bell.watch(slot)

    def read_what_can_be(
        self, topic: str, lease: PoppedLease, max_bytes: int, settlings: Settlings
    ) -> tuple[list[MessageView], StoreError | None]:
        """As `read`, with the error instead of raising it. The caller raises it when there are no
        messages to return. What could not be read comes again when its time is over, but for a
        declared hole, which is acknowledged.
        """
        try:
            return self.read(topic, lease, max_bytes, settlings), None
        except (Corrupt, CorruptRange, TopicDeleted) as error:
            if isinstance(error, CorruptRange) and (mask := hole_mask(error, lease)):
                name = (topic, lease.queue_id, lease.first, lease.popped_ms)
                settlings.add(name, mask, ACKNOWLEDGED)
            return [], error

    def read(
        self, topic: str, lease: PoppedLease, max_bytes: int, settlings: Settlings
    ) -> list[MessageView]:
        """The messages of a lease that the filter takes. The others are acknowledged: no member
        wants them, or the store has removed them. Those for which there is no room are given back.
        Raises Corrupt, CorruptRange, TopicDeleted.
        """
        name = (topic, lease.queue_id, lease.first, lease.popped_ms)
        selection = self._selections[topic]
        found: list[MessageView] = []
        passed = kept = 0
        for begin, end in runs(lease.mask):
            cursor = self._cursor(topic, lease.queue_id)
            cursor.next, stop = lease.first + begin, lease.first + end
            while cursor.next < stop and max_bytes > 0:
                at = cursor.next
                messages = cursor.read(stop - at, selection.codes, max_bytes)
                messages = [one for one in messages if one.queue_offset < stop]
                max_bytes -= sum(one.size for one in messages)
                passed |= _bits(at, min(cursor.next, stop), lease.first)
                found += selection.select(messages)
                if cursor.next == at:
                    break
        for message in found:
            kept |= 1 << (message.queue_offset - lease.first)
        if passed & ~kept:
            settlings.add(name, passed & lease.mask & ~kept, ACKNOWLEDGED)
        if lease.mask & ~passed:
            settlings.add(name, lease.mask & ~passed, UNSEEN)
        if lease.times > 1:
            found = [with_times(one, lease.times - 1) for one in found]
        return found

    def _cursor(self, topic: str, queue_id: int) -> Cursor:
        found = self._cursors.get((topic, queue_id))
        if found is None:
            if queue_id >= len(self._slots[topic]):
                self._watch()  # the topic has got more queues
            slot = self._slots[topic][queue_id]
            found = self._cursors[topic, queue_id] = self._view.cursor(topic, queue_id, slot, 0)
        return found


def _bits(begin: int, end: int, first: int) -> int:
    return (1 << (end - first)) - (1 << (begin - first))


def hole_mask(hole: CorruptRange, lease: PoppedLease) -> int:
    """The messages of a lease that lie in a declared hole."""
    begin, end = hole.queue_offsets or (0, 0)
    count = lease.mask.bit_length()
    begin, end = (min(max(0, at - lease.first), count) for at in (begin, end))
    return lease.mask & ((1 << end) - (1 << begin))


def with_times(message: MessageView, more: int) -> MessageView:
    """The message with another number of tries."""
    record = with_more_reconsume_times(message.record, more)
    return MessageView(record, message.queue_offset, message.queue)
