"""Explains of each commit-log file of a store why it stays or goes, and when. Changes nothing.

The rules are those of the clean process (`store/retention/judgement.py`), applied to what lies on
the disk and, of a running store, in its shared memory. Of a store that does not run it is not known
which delayed messages and transactions wait, and nothing is removed before it runs again.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
import posix_ipc
from msgspec.structs import asdict

from ..shm import segments
from ..shm._memory import Mapping
from ..store.consumequeue.queue import QueueFiles
from ..store.disk.files import Folder
from ..store.disk.paths import COMMIT_LOG, CONFIG, CONSUME_QUEUE, OURS
from ..store.errors import Corrupt
from ..store.recovery import durable_progress
from ..store.retention import removal
from ..store.retention.consumption import (
    Offsets,
    Unconsumed,
    first_unconsumed,
    read_offsets,
)
from ..store.retention.judgement import Judgement, Limits, Why, judge, next_hour
from ..store.retention.rules import (
    HOUR_MS,
    DiskFlag,
    LogFileAge,
    Ratios,
    Verdict,
    judge_disk,
)
from ..store.retention.topic_limits import NOTHING_KEPT, NOWHERE, Held, Kept, TopicsKeep
from ..store.retention.topic_retention import OwnLimits, Seen, TopicRetention, without
from ..store.topics.topic_table import TopicTable
from .doctor import stores
from .raw.files import BadInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..conf.settings import Settings

_READER: Final = "reader"
_BEHIND: Final = "behind"
#: Stands for a name that cannot be read.
_UNKNOWN: Final = "?"


class FileOutcome(msgspec.Struct, frozen=True):
    """One file, by its first offset and the time of its last write.

    `goes` says whether the next cleaning removes it. `why` is a Why, "reader" or "behind", and
    `about` the same in words. It goes at `when_ms` at the earliest, None if that is not known.
    """

    base: int
    modified_ms: int
    goes: bool
    why: str
    about: str
    when_ms: int | None


class Explanation(msgspec.Struct, frozen=True):
    """All files of a log, oldest first; what holds for all of them, in sentences."""

    files: list[FileOutcome] = []
    notes: list[str] = []

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"files": [asdict(file) for file in self.files], "notes": self.notes}


def explain(path: str, settings: Settings) -> Explanation:
    """Looks at the store in folder `path`, which may run. Raises BadInput, OSError."""
    try:
        root = Folder.open(path)
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(f"{path} is no folder: give the folder of a store") from None
    with root:
        here = stores.StoreHere.look(path, root, stores.look())
        return _Looker(path, root, settings, here).explain()


class _Looker:
    """Gathers what decides, then asks for each file."""

    def __init__(self, path: str, root: Folder, settings: Settings, here: stores.StoreHere) -> None:
        self.path = path
        self.root = root
        self.settings = settings
        self.here = here
        self.notes: list[str] = []
        self.now_ms = int(time.time() * 1000)
        self.log = self._folder(COMMIT_LOG)
        self.queues = self._folder(CONSUME_QUEUE)

    def _folder(self, name: str) -> Folder:
        try:
            return self.root.folder(name)
        except FileNotFoundError:
            why = f"{self.path} has no folder {name}: it is no store; give the folder of one"
            raise BadInput(why) from None

    def explain(self) -> Explanation:
        with self.log, self.queues:
            disk = self._disk()
            limits = self._limits(disk)
            ages = list(removal.log_ages(self.log))
            least = ages[0].base if ages else 0
            limits = limits.with_topics(self._topics_keep(ages, limits))
            own = limits.topics.begins
            first = self._first_unconsumed(least, own) if limits.unconsumed_ms else None
            opens = self._opens(limits, disk, least)
            leases = self._leases(limits.file_size)
            files = list(self._outcomes(ages, limits, first, opens, leases))
        return Explanation(files, self.notes)

    def _disk(self) -> Verdict:
        ratios = Ratios(
            self.settings.disk_max_used_space_ratio,
            self.settings.disk_space_clean_forcibly_ratio,
            self.settings.disk_space_warning_level_ratio,
        )
        used = removal.disk_use(self.log), removal.disk_use(self.queues)
        verdict = judge_disk(*used, DiskFlag(0), ratios)
        shown = f"the disks are {used[0]} % (log) and {used[1]} % (queues) full"
        if verdict.at_once:
            what = "the oldest files go at any hour"
            if not self.settings.clean_file_forcibly_enable:
                what = "expired files go at any hour, whatever waits in them"
            self.notes.append(f"{shown}, above {ratios.forcibly} %: {what}")
        elif verdict.space_wanted:
            self.notes.append(f"{shown}, above {ratios.max_used} %: expired files go at any hour")
        return verdict

    def _limits(self, disk: Verdict) -> Limits:
        control = self.here.control
        durable = end = 0
        with contextlib.suppress(FileNotFoundError), self.root.folder(OURS) as ours:
            found = durable_progress.read(ours)
            if found is not None:
                durable, end = found.progress.dispatched, found.flushed
        if self.here.runs and control is not None:
            end = control.load("wrote")
        if not self.here.runs:
            self.notes.append(
                "the store does not run: nothing goes before it runs; messages that wait for their "
                "time or the end of a transaction are not considered"
            )
        elif control is None:
            self.notes.append(
                f"the store runs, but {self.here.trouble or 'cannot be looked at'}: what waits in "
                "it is not considered; run this as the store's user"
            )
        runs = self.here.runs and control is not None
        return Limits.of(
            self.settings,
            end=end,
            durable=durable,
            now_ms=self.now_ms,
            delayed=control.load("schedule_floor") if runs and control else NOWHERE,
            transactions=control.load("trans_floor") if runs and control else NOWHERE,
            full=disk.at_once,
        )

    def _topics_keep(self, ages: list[LogFileAge], limits: Limits) -> TopicsKeep:
        if not self.root.has(CONFIG):
            return NOTHING_KEPT  # there is no topic yet
        try:
            with self.root.folder(CONFIG) as config:
                own = OwnLimits(config, self.notes.append).read()
            if not own:
                return NOTHING_KEPT
            numbers = {topic: number for number, topic in enumerate(own, 1)}
            return TopicRetention(
                QueueFiles(self.queues, self.settings.mapped_file_size_consume_queue),
                own,
                ages,
                limits,
                self._offsets,
                seen=Seen(),
                number_of=lambda topic: numbers.get(topic, 0),
                beat=lambda: None,
            ).look()
        except (Corrupt, FileNotFoundError) as error:
            self.notes.append(f"what topics keep cannot be read: {error}")
            return TopicsKeep(held=Held(0, _UNKNOWN, Kept()))

    def _offsets(self) -> Offsets:
        return read_offsets(os.path.join(self.path, CONFIG))

    def _first_unconsumed(self, least: int, own: Collection[str]) -> Unconsumed | None:
        files = QueueFiles(self.queues, self.settings.mapped_file_size_consume_queue)
        cleaner = removal.QueueCleaner(files, least, 0)
        try:
            return first_unconsumed(without(self._offsets(), own), cleaner, lambda: None)
        except Corrupt as error:
            self.notes.append(f"what groups have consumed cannot be read: {error}")
            return Unconsumed(0, _UNKNOWN, _UNKNOWN, 0, 0)

    def _opens(self, limits: Limits, disk: Verdict, least: int) -> int:
        """When files are removed next, epoch ms."""
        control = self.here.control
        by_hand = control is not None and control.load("manual_runs") > 0
        if disk.space_wanted or by_hand or limits.is_too_large(least):
            return self.now_ms
        return next_hour(self.settings.delete_when, self.now_ms)

    def _leases(self, file_size: int) -> set[int]:
        """The files in which readers of a running store have leases."""
        if not self.here.runs or self.here.control is None or self.here.identity is None:
            return set()
        with contextlib.suppress(posix_ipc.Error, OSError):
            fd = segments.open_segment(self.here.identity, "table")
            try:
                table = TopicTable(Mapping(fd, 0, os.fstat(fd).st_size, writable=False))
            finally:
                os.close(fd)
            return {offset - offset % file_size for offset in table.leases()}
        return set()

    def _outcomes(
        self,
        ages: list[LogFileAge],
        limits: Limits,
        first: Unconsumed | None,
        opens: int,
        leases: set[int],
    ) -> Iterator[FileOutcome]:
        """A file goes after all before it: `when` is the latest time of these so far."""
        when: int | None = opens
        stays: LogFileAge | None = None
        for file in ages:
            found = judge(file, limits, lambda end: first is None or first.log_offset >= end)
            about = _words(found, limits, file, first)
            why = str(found.why)
            if found.why is Why.DUE and stays is not None:
                why, about = _BEHIND, f"it would go, and goes after the file {stays.base:,}"
            elif found.why is Why.DUE and file.base in leases:
                patience = self.settings.destroy_mapped_file_interval_forcibly_ms
                why = _READER
                about = f"a reader holds it, for {patience / 1000:,.0f} s after its time at most"
            if found.why is not Why.DUE:
                own = found.until_ms
                if own is not None:
                    own = max(own, next_hour(self.settings.delete_when, own))
                when = None if when is None or own is None else max(when, own)
            goes = why == Why.DUE
            if not goes and stays is None:
                stays = file
            yield FileOutcome(file.base, file.modified_ms, goes, why, about, when)


def _words(found: Judgement, limits: Limits, file: LogFileAge, first: Unconsumed | None) -> str:
    match found.why:
        case Why.END if file.base > 0 and file.base >= limits.end:
            return "it is made ahead of the end of the log"
        case Why.END if file.base + limits.file_size > limits.end:
            return "it has the end of the log"
        case Why.END:
            return "the next start reads it: its queue entries are not all durable"
        case Why.DELAYED:
            return "a delayed message waits in it or before it"
        case Why.TRANSACTION:
            return "a transaction that began in it or before it is open"
        case Why.YOUNG:
            hours = limits.reserved_ms // HOUR_MS
            why = f"written less than {hours:,} h ago (file_reserved_time_h)"
            return (
                why if limits.topics.soonest_h is None else f"{why}; its topics may let it sooner"
            )
        case Why.TOPIC:
            assert limits.topics.held is not None, "otherwise no topic keeps it"
            return _kept_words(limits.topics.held)
        case Why.UNCONSUMED:
            assert first is not None, "otherwise it is consumed"
            hours = limits.unconsumed_ms // HOUR_MS
            return (
                f"group {first.group} has not consumed {first.topic}[{first.queue_id}]"
                f"@{first.queue_offset}; {hours:,} h at most (file_reserved_unconsumed_h)"
            )
    if limits.forced:
        return "the disk is too full"
    if limits.is_too_large(file.base):
        return f"{limits.reserved_size:,} bytes of the log follow it (file_reserved_size)"
    if file.base + limits.file_size <= limits.topics.released:
        return "all its messages have expired by the limits of their topics"
    return f"expired: written more than {limits.reserved_ms // HOUR_MS:,} h ago"


def _kept_words(held: Held) -> str:
    topic, kept = held.topic, held.kept
    if topic == _UNKNOWN:
        return "what topics keep cannot be read"
    if kept.unconsumed:
        return f"a group has not consumed what topic {topic} has here; {kept.hours:,} h at most"
    if kept.hours:
        return f"topic {topic} keeps its messages for {kept.hours:,} h"
    return f"topic {topic} keeps its messages by its own limits"
