"""Reads the timer topic: writes new timers into the files of their minutes, and obeys cancels."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ...shm._words import fault
from ...store.commitlog.log_reader import LogReader
from ...store.delay import cancelling, delays
from ...store.delay.timers import Entry, Timers, Waiting, key_checksum
from ...store.delay.waiting_queue import DelayedQueue
from ...store.errors import Corrupt
from ...store.record.format import Record, decode_record
from ...store.record.properties import UNIQ_KEY
from .state import State

_BATCH = 256


class Entering:
    """Enters timers for the schedule process.

    All timers and cancels that were stored before `until_ms` (epoch ms) and are in the queue have
    been read. A timer that is due later may have a cancel that has not been read.
    """

    def __init__(self, timers: Timers, state: State, log: LogReader, logger: Any) -> None:
        self.timers = timers
        self.state = state
        self.log = log
        self.logger = logger
        self.until_ms = 0

    def enter(
        self, queue: DelayedQueue | None, under_way: Collection[Waiting | None], now: int
    ) -> float:
        """Reads up to 256 new records of the timer topic. `under_way` are the timers that are being
        delivered. Returns when (epoch ms) to look again. More at once would delay messages that are
        due.
        """
        entries = []
        if queue is not None:
            queue.cursor = self.state.progress.timer_next
            entries = queue.following(_BATCH)
        if queue is None or not entries:
            self.until_ms = now
            return float("inf")
        found: list[Entry] = []
        cancels: list[cancelling.Cancel] = []
        for place, (offset, size, _) in enumerate(entries, queue.cursor):
            record = self.record(offset, size)
            if record is None:
                continue
            cancel = cancelling.cancel_of(record, place)
            if cancel is not None:
                cancels.append(cancel)
            if cancelling.DELETE_KEY not in record.properties:
                key = key_checksum(record.properties.get(UNIQ_KEY, ""))
                found.append((delays.due_ms(record), place, offset, size, key))
            self.until_ms = record.store_timestamp
        self.timers.enter(found, now)
        if cancels:
            self._cancel(cancels, under_way)
        fault("schedule:entered")
        self.state.entered(queue.cursor + len(entries))
        return now

    def _cancel(
        self,
        cancels: list[cancelling.Cancel],
        under_way: Collection[Waiting | None],
    ) -> None:
        """Gives up the messages that are cancelled. The progress counts the cancels only after
        that: a successor reads them again. It is too late for what is being delivered.
        """
        found = cancelling.find_cancelled(self.timers, cancels, self.record)
        places = {(entry.minute, entry.place) for entry in under_way if entry is not None}
        found = [entry for entry in found if (entry.minute, entry.place) not in places]
        self.timers.give_up(found)
        if len(found) < len(cancels):
            late = len(cancels) - len(found)
            self.logger.info("cancels came too late, or name no waiting message", count=late)

    def record(self, offset: int, size: int) -> Record | None:
        """The record of a delayed message. None, with an error in the log, if it is removed or
        damaged.
        """
        try:
            return decode_record(self.log.record(offset, size))
        except (FileNotFoundError, Corrupt) as error:
            self.logger.error("a delayed message is lost", offset=offset, why=str(error))
            return None
