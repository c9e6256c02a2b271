"""clean: removes expired files, and watches how full the disks are.

The only writer of `min_offset`, of each queue's `min_offset` and of `disk_flags`, and the only
process that removes expired files of a running store. `store/retention/rules.py` decides which
files may be removed.

Topics with limits of their own (`store/retention/topic_limits.py`) are looked at in every run:
their expired messages are hidden at once, by their queues' `min_offset`. A start begins with the
log's first file again, so `setup` hides them again before a client is served.

The order is: the log's durable begin (`silomq/log_begin`); the log's new `min_offset`; the queues'
new minima; the commit-log files, oldest first; queue files and index files. A reader looks at the
minima before it opens a file. A killed clean leaves files below `min_offset`, which the next clean
removes. After a restart of the whole store, the log begins with those files again, and the queue
entries of their records still exist.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Collection, Mapping

from ..shm._words import fault, wait_any
from ..shm.progress import Progress
from ..store.consumequeue.queue import QueueFiles
from ..store.errors import Corrupt
from ..store.index.file import IndexFiles
from ..store.recovery import durable_progress, log_begin
from ..store.retention import removal
from ..store.retention.consumption import Offsets, first_unconsumed, read_offsets
from ..store.retention.judgement import Consumed, Limits, due
from ..store.retention.rules import (
    MANUAL_RUNS,
    UNKNOWN,
    DiskFlag,
    Ratios,
    is_hour_to_delete,
    judge_disk,
    released,
)
from ..store.retention.topic_limits import (
    NOTHING_KEPT,
    NOWHERE,
    Held,
    Kept,
    TopicLimits,
    TopicsKeep,
)
from ..store.retention.topic_retention import OwnLimits, Seen, TopicRetention, without
from .actor import TICK_S, Actor

_BEAT_QUEUES = 256
_NOT_KNOWN = 2**64 - 1


class Clean(Actor):
    """Looks at the disk every `clean_resource_interval_ms`, and at once after `silo clean`."""

    name = "clean"

    def setup(self) -> None:
        settings, own = self.settings, self.control.own
        self.min_offset = own("min_offset")
        self.flags = own("disk_flags")
        self.used = own("log_disk_used"), own("queue_disk_used")
        self.cleaned_ms = own("cleaned_ms")
        self.files_removed = own("files_removed")
        self.manual_seen = own("manual_seen")
        self.manual_runs = own("manual_runs")
        self.queue_removed = self.metrics.own("queue_removed")
        self.index_removed = self.metrics.own("index_removed")
        self.removals = self.metrics.own_histogram("clean_time")
        self.asked = self.control.word("manual_asked")
        self.state = self.control.word("state")
        self.folders = self.world.folders
        self.log = self.world.log
        self.queues = QueueFiles(
            self.folders.consume_queue, settings.mapped_file_size_consume_queue
        )
        self.index = IndexFiles(
            self.folders.index, settings.max_hash_slot_num, settings.max_index_num
        )
        self.ratios = Ratios(
            settings.disk_max_used_space_ratio,
            settings.disk_space_clean_forcibly_ratio,
            settings.disk_space_warning_level_ratio,
        )
        self.own_limits = OwnLimits(self.folders.config, self._warn_of_limit)
        self.seen = Seen()
        # By topics' places in the table: the log offset up to which messages are hidden.
        self.hidden: dict[int, int] = {}
        self.waiting: dict[int, int] = {}
        # Queue files to remove, one item for each queue: (topic, queue id, bases of the files).
        self.pending: deque[tuple[str, int, tuple[int, ...]]] = deque()
        self._look_at_disk()
        left = [base for base in self.log.bases() if base < self.min_offset.load()]
        if left:
            self.logger.warning("goes on with what a killed clean had begun", files=len(left))
        if self.min_offset.load():
            self._remove(left)
        self._topics_keep(self._limits(full=False))

    def run(self) -> None:
        every = self.settings.clean_resource_interval_ms / 1000
        pause = self.settings.delete_consume_queue_files_interval_ms / 1000
        due = time.monotonic()
        while not self.stopping:
            self.beat()
            words = [self.state, self.asked]
            seen = [word.load() for word in words]
            if self._is_asked() or time.monotonic() >= due:
                self._clean_once()
                due = time.monotonic() + every
            if self.pending:
                self._remove_queue_files(*self.pending.popleft())
            patience = pause if self.pending else TICK_S
            wait_any(words, seen, min(patience, max(0.0, due - time.monotonic())))

    def _is_asked(self) -> bool:
        """Whether `silo clean` was called since the last look. The next MANUAL_RUNS runs then
        remove expired files at any hour.
        """
        asked = self.asked.load()
        if asked == self.manual_seen.load():
            return False
        self.manual_runs.store(MANUAL_RUNS)
        self.manual_seen.store(asked)
        return True

    def _look_at_disk(self) -> tuple[bool, bool]:
        """Measures the disks and sets `disk_flags`. Returns two booleans: whether files are removed
        at any hour, and whether the disk is so full that unexpired files may be removed.
        """
        used = (
            removal.disk_use(self.folders.commit_log),
            removal.disk_use(self.folders.consume_queue),
        )
        for word, value in zip(self.used, used, strict=True):
            word.store(_NOT_KNOWN if value == UNKNOWN else value)
        before = DiskFlag(self.flags.load())
        verdict = judge_disk(*used, before, self.ratios)
        if verdict.flags != before:
            self.flags.store(verdict.flags)
            if verdict.flags:
                self.logger.error(
                    "the disk is too full: the store takes no messages until there is space",
                    log_disk_used=used[0],
                    queue_disk_used=used[1],
                    limit=self.ratios.warning,
                )
            else:
                self.logger.info("the disk has space again: the store takes messages")
        return verdict.space_wanted, verdict.at_once

    def _clean_once(self) -> None:
        """One run of RocketMQ's CleanCommitLogService. A run by hand is counted when it is over, so
        that a kill does not lose it.
        """
        runs = self.manual_runs.load()
        self._remove_what_is_due(asked=runs > 0)
        if runs:
            self.manual_runs.store(runs - 1)

    def _remove_what_is_due(self, *, asked: bool) -> None:
        space_wanted, at_once = self._look_at_disk()
        hour = is_hour_to_delete(self.settings.delete_when, time.localtime().tm_hour)
        limits = self._limits(full=at_once)
        limits = limits.with_topics(self._topics_keep(limits))
        if not (space_wanted or asked or hour):
            if not limits.is_too_large(self.min_offset.load()):
                self.waiting = {}
                return
            limits = limits.by_size_only()
        going = due(
            removal.log_ages(self.folders.commit_log),
            limits,
            self._consumed(limits.topics.begins),
            most=self.settings.delete_file_batch_max,
        )
        bases, self.waiting = released(
            going,
            self.world.table.leases(),
            file_size=self.log.file_size,
            waiting=self.waiting,
            now_ms=time.monotonic_ns() // 1_000_000,
            patience_ms=self.settings.destroy_mapped_file_interval_forcibly_ms,
        )
        if bases:
            self._remove(bases)
            if at_once:
                self._look_at_disk()

    def _limits(self, *, full: bool) -> Limits:
        """What decides about the files now. `full`: the disk overrides what is waited for."""
        return Limits.of(
            self.settings,
            end=self.control.load("wrote"),
            durable=self._durable().dispatched,
            now_ms=int(time.time() * 1000),
            delayed=self.control.load("schedule_floor"),
            transactions=self.control.load("trans_floor"),
            full=full,
        )

    def _topics_keep(self, limits: Limits) -> TopicsKeep:
        """What the topics with limits of their own keep, and hides what of theirs has expired. If
        that cannot be found out they keep everything, unless the disk is full.
        """
        try:
            own = {t: limit for t, limit in self.own_limits.read().items() if self._number_of(t)}
            if not own:
                return NOTHING_KEPT
            keep = self._retention(own, limits).look()
            self._hide(keep.begins)
        except (Corrupt, OSError) as error:
            self.logger.error("cannot tell what topics keep", error=str(error))
            return TopicsKeep(held=Held(0, "?", Kept()))
        return keep

    def _warn_of_limit(self, why: str) -> None:
        self.logger.warning("an attribute is no limit of retention", why=why)

    def _retention(self, own: dict[str, TopicLimits], limits: Limits) -> TopicRetention:
        least = self.min_offset.load()
        ages = removal.log_ages(self.folders.commit_log)
        self.seen.drop_sizes(least)
        return TopicRetention(
            self.queues,
            own,
            [age for age in ages if age.base >= least],
            limits,
            functools.cache(self._offsets),
            seen=self.seen,
            number_of=self._number_of,
            beat=self.beat,
        )

    def _number_of(self, topic: str) -> int:
        """A number that no other topic ever has, above 0; 0 if there is none of this name."""
        found = self.world.table.find(topic)
        return 0 if found is None else found.index + 1

    def _hide(self, begins: Mapping[str, int]) -> None:
        """Moves the begins of topics' queues behind what has expired."""
        for topic, begin in begins.items():
            found = self.world.table.find(topic)
            if found is None or begin <= self.hidden.get(found.index, 0):
                continue
            cleaner = removal.QueueCleaner(self.queues, begin, 0)
            for queue_id, slot in enumerate(found.slots):
                self.beat()
                end = self.world.table.queue_word(slot, "max_offset").load()
                word = self.world.table.own_queue_word(slot, "min_offset")
                least = word.load()
                at = min(cleaner.first_from(topic, queue_id, least)[0], end)
                if at > least:
                    # SYNC: queue-min publish
                    word.store(at)
            self.hidden[found.index] = begin

    def _offsets(self) -> Offsets:
        return read_offsets(self.folders.config.path)

    def _consumed(self, own: Collection[str]) -> Consumed:
        """Whether all groups have consumed what lies below a log offset, but for topics with `own`
        limits; they are looked at once, at the first question.
        """
        first = functools.cache(lambda: self._first_unconsumed(own))
        return lambda end: first() >= end

    def _first_unconsumed(self, own: Collection[str]) -> int:
        """The log offset of the first message that a group has not consumed. If offsets cannot be
        read, 0: the bound in hours and a full disk still hold.
        """
        cleaner = removal.QueueCleaner(self.queues, self.min_offset.load(), 0)
        try:
            first = first_unconsumed(without(self._offsets(), own), cleaner, self.beat)
        except (Corrupt, OSError) as error:
            self.logger.error("cannot tell what groups have consumed", error=str(error))
            return 0
        return NOWHERE if first is None else first.log_offset

    def _pause(self, seconds: float) -> None:
        """Waits between two files, and keeps the heartbeat going."""
        end = time.monotonic() + seconds
        while not self.stopping and (left := end - time.monotonic()) > 0:
            self.beat()
            time.sleep(min(left, TICK_S))

    def _durable(self) -> Progress:
        """The progress record on the disk. Without one it is all zeros, and nothing is removed."""
        found = durable_progress.read(self.folders.ours)
        return found.progress if found else Progress()

    def _remove(self, bases: list[int]) -> None:
        """Removes the log's first files, and the queue entries and index files that point only
        into them. Queue files are removed later (`pending`).
        """
        began = time.monotonic()
        if bases:
            begin = max(self.min_offset.load(), bases[-1] + self.log.file_size)
            # Otherwise the next start would miss the files that this process has removed.
            log_begin.write(self.folders.ours, begin)
            fault("clean:noted")
            self.min_offset.store(begin)
            fault("clean:published")
        self._correct_queues()
        fault("clean:corrected")
        for base in bases:
            if base != bases[0]:
                self._pause(self.settings.delete_commit_log_files_interval_ms / 1000)
            removal.remove(self.folders.commit_log, base)
            self.files_removed.add(1)
            fault("clean:unlinked")
        # Queue files are removed after this sync. Otherwise a power cut could bring back a log file
        # whose queue entries are lost.
        self.folders.commit_log.sync()
        if bases:
            self.removals.add(time.monotonic() - began)
            self.cleaned_ms.store(int(time.time() * 1000))
            self.logger.info(
                "commit-log files removed", files=len(bases), min_offset=self.min_offset.load()
            )
        index = removal.clean_index(self.index, self.min_offset.load(), self._durable().index.name)
        self.index_removed.add(len(index))
        if index:
            self.logger.info("index files removed", files=len(index))

    def _correct_queues(self) -> None:
        """Sets each queue's `min_offset` to its first entry whose record is still in the log, and
        notes in `pending` the queue files below it.
        """
        table = self.world.table
        cleaner = removal.QueueCleaner(
            self.queues, self.min_offset.load(), self._durable().dispatched
        )
        self.pending.clear()
        ends = table.queue_column("max_offset")
        for slot, (least, end) in enumerate(
            zip(table.queue_column("min_offset"), ends, strict=False)
        ):
            if slot % _BEAT_QUEUES == 0:
                self.beat()
            if end == 0 or table.is_deleted(slot):
                continue
            topic_index, queue_id = table.queue(slot)
            topic = table.topic_name(topic_index)
            found = cleaner.look(topic, queue_id, least, end)
            if found.min_offset != least:
                # SYNC: queue-min publish
                table.own_queue_word(slot, "min_offset").store(found.min_offset)
            if found.files:
                self.pending.append((topic, queue_id, found.files))

    def _remove_queue_files(self, topic: str, queue_id: int, bases: tuple[int, ...]) -> None:
        try:
            folder = self.queues.folder(topic, queue_id)
        except FileNotFoundError:  # the topic was deleted meanwhile
            return
        try:
            for base in bases:
                removal.remove(folder, base)
                self.queue_removed.add(1)
                fault("clean:queue")
        finally:
            folder.close()
