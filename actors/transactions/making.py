"""`Making`: the records that the process puts for a transaction: its committed message, its half
once more, its copy among those that are given up.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ...conf.settings import Settings
from ...store.delay.delays import light_queues
from ...store.names import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC
from ...store.record.format import Record
from ...store.record.ids import Host
from ...store.transactions import half as halves
from ...store.transactions.half import Half
from .goals import Goals
from .own_ring import Frame, OwnRing
from .queues import Queues
from .waiting import Decided

_HOUR_MS: Final = 3_600_000


class Job(NamedTuple):
    """A record to put for a transaction. `decided` is the decision that asks for it, None for a
    check or a half that is moved on. With `again` the record is the half once more, and says that
    its producers were asked `checks` times.
    """

    half: Half
    frame: Frame
    decided: Decided | None = None
    again: bool = False
    checks: int = 0


class Lost(Exception):
    """The half's record is gone or damaged. The log says so."""


class NotWritten(Exception):
    """The half lies in the pool, and commit has not written it to its file yet."""


class Making:
    """Makes records. Methods raise NoTopic if the topic cannot be made now, IllegalMessage if the
    record never can be put, NotWritten and Lost.
    """

    def __init__(  # noqa: PLR0917 - plain parts
        self,
        queues: Queues,
        goals: Goals,
        ring: OwnRing,
        host: Host,
        settings: Settings,
        logger: Any,
    ) -> None:
        self._queues = queues
        self._goals = goals
        self._ring = ring
        self._host = host
        self._settings = settings
        self._logger = logger
        self._record_crc = settings.enabled_append_prop_crc

    def _record(self, half: Half) -> Record:
        if not self._queues.is_written(half.offset + half.size):
            raise NotWritten
        record = self._queues.record(half.offset, half.size)
        if record is None:
            raise Lost
        return record

    def _frame(self, made: tuple[bytes, tuple[int, int]], slot: int) -> Frame:
        record, body = made
        if len(record) > self._ring.largest_record:
            raise halves.NotAHalf(f"its record has {len(record)} bytes")
        return Frame(record, body, slot)

    def final(self, decided: Decided, half: Half, now_ms: int) -> Job:
        """The committed message."""
        record = self._record(half)
        slot, queue_id = self._goals.slot(half.topic, half.queue_id, now_ms)
        light = light_queues(record) if self._settings.sends_to_light_queues else ()
        for name in light:
            self._goals.slot(name, 0, now_ms)
        made = halves.final(
            record, half.topic, queue_id, self._host, light=len(light), record_crc=self._record_crc
        )
        return Job(half, self._frame(made, slot), decided)

    def check(self, half: Half, now_ms: int) -> Job:
        """The half once more, so that its producers are asked; or its copy among those that are
        given up. The clock may be wrong, so they are asked once at least.
        """
        old = now_ms - half.first_ms > _HOUR_MS * self._settings.file_reserved_time_h
        if half.checks >= self._settings.transaction_check_max or (old and half.checks):
            return self._given_up(half, now_ms)
        return self.moved(half, half.checks + 1, now_ms)

    def _given_up(self, half: Half, now_ms: int) -> Job:
        record = self._record(half)
        slot, _ = self._goals.slot(TRANS_CHECK_MAX_TIME_TOPIC, 0, now_ms)
        self._logger.warning(
            "a transaction that nobody decides is given up",
            offset=half.offset, group=half.group, topic=half.topic,
        )  # fmt: skip
        made = halves.discarded(
            record, TRANS_CHECK_MAX_TIME_TOPIC, self._host, record_crc=self._record_crc
        )
        return Job(half, self._frame(made, slot))

    def moved(self, half: Half, checks: int, now_ms: int) -> Job:
        """The half once more. Its producers are asked if `checks` is greater than it was."""
        record = self._record(half)
        slot, _ = self._goals.slot(TRANS_HALF_TOPIC, 0, now_ms)
        made = halves.checked(record, checks, self._host, record_crc=self._record_crc)
        return Job(half, self._frame(made, slot), again=True, checks=checks)
