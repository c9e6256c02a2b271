"""Start-up: from the files of a stopped or crashed store to shared tables that the actors go on
from.

The work is bounded by what was not durable: the commit log is scanned from where the progress
record says that it was flushed, dispatch goes on from where queues and index were. A store that
RocketMQ had in between (its checkpoint is not the one we noted) goes on from what RocketMQ's files
say. Runs in the supervisor before any actor exists, so it may write every word.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from ...conf.settings import Settings
from ...shm.control import Control
from ..commitlog import _scan as kernel
from ..commitlog.log import CommitLog
from ..commitlog.log_end import ENDS, LogEnd, cut, find_end, refuse_damage
from ..commitlog.seals import Seals
from ..config import topics as topics_json
from ..consumequeue.queue import ENTRY_SIZE, QueueFiles, count_entries
from ..disk import files as disk
from ..disk.paths import ABORT, LAYOUT_FILE, LAYOUT_VERSION, TOPICS, StoreFolders, file_bases
from ..disk.replacing import replace_file
from ..dispatch.dispatcher import Dispatching
from ..errors import StoreError
from ..index.file import IndexFiles
from ..index.rewind import index_below, kept_until
from ..topics.deletions import Deletions, finish_all
from ..topics.topic_table import TableFull, TopicTable
from . import checkpoint, durable_progress, power_cut, rocketmq_progress
from .checkpoint import Checkpoint

OURS_KNOWN = "progress record"


@dataclass
class Report:
    """What start-up found and did: offsets in bytes, times in ms. `known_from` says what told where
    to begin; `kept_in` names the files below the store's folder that keep what was cut off.
    """

    clean: bool = False
    known_from: str = ""
    files: int = 0
    bytes: int = 0
    scanned_from: int = 0
    log_end: int = 0
    end_reason: str = ""
    cut_bytes: int = 0
    kept_in: list[str] = field(default_factory=list)
    records_scanned: int = 0
    dispatched_from: int = 0
    entries_dispatched: int = 0
    queue_bytes_cut: int = 0
    index_entries_undone: int = 0
    topics: int = 0
    queues: int = 0
    duration_ms: int = 0
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """A queue as its files are: how many entries belong to dispatched records, and the offset of
    the first whose record still exists.
    """

    topic: str
    queue_id: int
    count: int
    least: int


class QueueMissing(Exception):
    """A record lies in a queue number that its topic was not known to have."""

    def __init__(self, topic: str, queue_id: int) -> None:
        super().__init__(topic, queue_id)
        self.topic = topic
        self.queue_id = queue_id


def check_layout(folders: StoreFolders) -> None:
    """Refuses a store that a newer SiloMQ made; marks a new one. Raises StoreError."""
    try:
        with folders.ours.file(LAYOUT_FILE) as fd:
            text = disk.read_at(fd, 32, 0).decode("ascii", "replace").strip()
    except FileNotFoundError:
        replace_file(folders.ours, LAYOUT_FILE, f"{LAYOUT_VERSION}\n".encode())
        return
    if not text.isdigit() or int(text) > LAYOUT_VERSION:
        raise StoreError(
            f"{folders.ours.path}/{LAYOUT_FILE} says {text!r}: the store was made by a newer "
            f"SiloMQ (this one knows layouts up to {LAYOUT_VERSION}); start it with that version"
        )


class StartUp:
    """One start of the store in `folders`. `run` fills `control` and `table`, and returns the
    report. `report` is that of an attempt before, which may have cut something off already.
    """

    def __init__(
        self,
        folders: StoreFolders,
        settings: Settings,
        control: Control,
        table: TopicTable,
        report: Report | None = None,
    ) -> None:
        self.settings = settings
        self.folders = folders
        self.control = control
        self.table = table
        self.log = CommitLog(folders, settings.mapped_file_size_commit_log)
        self.queues = QueueFiles(folders.consume_queue, settings.mapped_file_size_consume_queue)
        self.index = IndexFiles(folders.index, settings.max_hash_slot_num, settings.max_index_num)
        self.again = report is not None
        self.report = report or Report()
        self.power_lost = False
        self.index_kept_ms = 0
        self.seen: list[QueueSeen] = []

    def run(self, extra_queues: dict[str, int] | None = None) -> Report:
        """Raises StoreError, Corrupt, OSError; QueueMissing when the caller must start over with
        more queues.
        """
        began = time.monotonic()
        try:
            found = self._known()
            self._recover_log(found)
            first = self.control.load("min_offset")
            for note in finish_all(self.folders, self.queues, first, self.report.log_end):
                self._say(note)
            self.deletions = Deletions.read(self.folders.ours)
            self._look_at_queues(found)
            self._load_topics(extra_queues or {})
            found = self._recover_queues(found)
            self._dispatch(found)
            self._note()
        except TableFull as error:
            raise StoreError(f"{self.folders.root.path}: {error}") from error
        finally:
            self.report.duration_ms += round((time.monotonic() - began) * 1000)
        self.report.topics = self.table.topic_count
        self.report.queues = self.table.queue_count
        return self.report

    def _say(self, note: str) -> None:
        if note not in self.report.notes:
            self.report.notes.append(note)

    def _known(self) -> dict[str, int] | None:
        """Our progress record, or what RocketMQ's files say if it has had the store since; None:
        nothing is known, everything is read.
        """
        crashed = ABORT in self.folders.root.names()
        found = durable_progress.read(self.folders.ours)
        noted = checkpoint.read(self.folders.root)
        self.checkpoint = noted or Checkpoint()
        if found is not None and durable_progress.agrees(found, self.checkpoint):
            self.report.known_from = OURS_KNOWN
            self.report.clean = bool(found["clean"]) and not crashed
            return found
        if noted is None or (found is None and power_cut.ran_here(self.folders.ours)):
            self.report.known_from = "nothing: the whole log is read"
            return None
        self.report.known_from = "RocketMQ's checkpoint"
        self.report.clean = not crashed
        index = self.index if self.settings.message_index_enable else None
        adopted = rocketmq_progress.progress_of(
            self.log, self.queues, index, self.checkpoint, clean=self.report.clean
        )
        return dict.fromkeys(durable_progress.FIELDS, 0) | adopted

    def _recover_log(self, found: dict[str, int] | None) -> None:
        for name in self.log.remove_half_made():
            self._say(f"removed a half-made commit-log file ({name})")
        for name in self.log.remove_empty_last():
            self._say(f"removed a commit-log file of no bytes ({name})")
        if self.queues.remove_half_made():
            self._say("removed a half-made queue file")
        bases = self.log.bases()
        self.report.files = len(bases)
        self.report.bytes = len(bases) * self.log.file_size
        first = bases[0] if bases else 0
        start = max(first, found["flushed"]) if found else first
        # Also after a clean stop: RocketMQ may have gone on with the store.
        end = LogEnd(start, 0, 0, kernel.NOTHING)
        self.power_lost = not self.report.clean and power_cut.machine_stopped(self.folders.ours)
        if bases:
            end = find_end(self.log, start, check_crc=self.settings.check_crc_on_recover)
            self._settle_end(start, end)
        self.report.scanned_from, self.report.log_end = start, end.end
        self.report.records_scanned = end.records
        if not self.again:
            self.report.end_reason = ENDS[end.why]
        own = self.control.own
        own("min_offset").store(first)
        for word in ("wrote", "committed", "flushed"):
            own(word).store(end.end)
        own("store_time_ms").store(max(end.newest, found["store_time_ms"] if found else 0))
        ready = self.log.base_of(end.end)
        while ready in bases:
            ready += self.log.file_size
        own("ready").store(ready)

    def _settle_end(self, start: int, end: LogEnd) -> None:
        """Cuts off what is torn, and makes durable what is not known to be."""
        durable_until = self.checkpoint.durable_time_ms
        refuse_damage(self.log, end, durable_until, power_cut=self.power_lost)
        first = self.log.bases()[0]
        with Seals(self.folders) as seals:
            seals.remove_outside(first, self.log.base_of(end.end))
        kept_in, cut_bytes = cut(self.log, end.end)
        self.report.kept_in += kept_in
        self.report.cut_bytes += cut_bytes
        if cut_bytes:
            self._say(f"{cut_bytes} bytes behind offset {end.end} were cut off and kept")
        for base in self.log.bases():
            if start < base + self.log.file_size and base < end.end:
                self.log.sync(base)

    def _load_topics(self, extra_queues: dict[str, int]) -> None:
        saved, loaded = topics_json.load(f"{self.folders.config.path}/{TOPICS}")
        if loaded.problem:
            self._say(f"topics.json: {loaded.problem}")
        needed = dict(extra_queues)
        for queue in self.seen:
            needed[queue.topic] = max(needed.get(queue.topic, 0), queue.queue_id + 1)
        for name, config in saved.topics.items():
            self.table.add_topic(
                name,
                write_nums=config.write_queue_nums,
                read_nums=config.read_queue_nums,
                perm=config.perm,
                least=needed.pop(name, 0),
                since=self.deletions.below(name),
            )
        for name, least in needed.items():
            self._add_topic(name, least)

    def _add_topic(self, name: str, least: int) -> None:
        """A topic that nobody configured, with `least` queues at the least."""
        nums = max(least, self.settings.default_topic_queue_nums)
        since = self.deletions.below(name)
        self.table.add_topic(name, write_nums=nums, read_nums=nums, perm=6, since=since)

    def _recover_queues(self, found: dict[str, int] | None) -> dict[str, int] | None:
        """Where dispatch begins; the progress that is true, None if all must be dispatched anew."""
        self._take_counts()
        if found is None:
            return None
        missing = self._missing(found)
        known = None if missing else self._index_to_dispatch(found)
        if known:
            return known
        missing = missing or "an index file is damaged"
        self._say(f"{missing}: queues and index are built anew from the commit log")
        self._look_at_queues(None)
        self._take_counts()
        return None

    def _missing(self, found: dict[str, int]) -> str:
        """What the progress record counts on and is not there any more; empty: nothing."""
        entries = sum(self.table.queue_column("max_offset"))
        if entries + self.deletions.entries < found["dispatch_count"]:
            return f"the queues hold {entries} entries of {found['dispatch_count']}"
        name = found["index_name"]
        if self.settings.message_index_enable and name and name not in self.index.names():
            return f"the index file {name} is gone"
        return ""

    def _index_to_dispatch(self, found: dict[str, int]) -> dict[str, int] | None:
        """The progress with an index that ends where dispatch begins; None: it cannot be known."""
        if not self.settings.message_index_enable:
            return found
        return index_below(self.index, self.log, found, self.report.dispatched_from)

    def _look_at_queues(self, found: dict[str, int] | None) -> None:
        """What every queue's files hold of records that were dispatched: one walk over the folders,
        which is most of the time of a clean start.
        """
        first = self.control.load("min_offset")
        dispatched = min(found["dispatched"], self.report.log_end) if found else first
        self.report.dispatched_from = dispatched
        self.seen = []
        size = self.queues.file_size
        for topic, queue_id, folder in self.queues.queues():
            bases = file_bases(folder)
            count = count_entries(folder, bases, size, dispatched)
            gone = count_entries(folder, bases, size, first) if first else 0
            least = max(gone, bases[0] // ENTRY_SIZE if bases else 0)
            self.seen.append(QueueSeen(topic, queue_id, count, least))

    def _take_counts(self) -> None:
        for queue in self.seen:
            slot = self.table.slot(queue.topic, queue.queue_id)
            self.table.own_queue_word(slot, "max_offset").store(queue.count)
            self.table.own_queue_word(slot, "min_offset").store(queue.least)

    def _dispatch(self, found: dict[str, int] | None) -> None:
        published = dict.fromkeys(self.control.progress(), 0)
        if found:
            published = {name: found[name] for name in published}
            if not published["dispatch_count"]:
                published["dispatch_count"] = sum(self.table.queue_column("max_offset"))
        if not (found and found["dispatch_count"]) and self.deletions.entries:
            self.deletions.entries = 0  # no part of a count that is made anew
            self.deletions.write()
        published["dispatched"] = self.report.dispatched_from
        self.index_kept_ms = kept_until(self.index, published)
        self.control.set_progress(published)
        dispatching = Dispatching(
            self.control,
            self.table,
            self.log,
            self.queues,
            self.index if self.settings.message_index_enable else None,
            unknown_queue=self._unknown_queue,
            power_lost=self.power_lost,
        )
        if not self.again:  # what an attempt before has put there was not there before
            self.report.index_entries_undone = dispatching.undone
        if self.report.log_end > self.report.dispatched_from:
            while not dispatching.step(10**12):
                pass
        self.report.entries_dispatched = (
            self.control.load("dispatch_count") - published["dispatch_count"]
        )
        counts = self.table.queue_column("max_offset")
        self._cut_queues(counts)
        for slot, count in enumerate(counts):
            self.table.own_queue_word(slot, "next").store(count)

    def _cut_queues(self, counts: list[int]) -> None:
        """A log that ends earlier than it once did leaves queue entries behind its end."""
        if self.power_lost or self.report.cut_bytes:
            ends = [
                (topic, queue_id, counts[self.table.slot(topic, queue_id)])
                for topic, queue_id, _ in self.queues.queues()
            ]
            self.report.queue_bytes_cut = power_cut.cut_queues(self.queues, ends)

    def _note(self) -> None:
        """Before anything is appended: what a later start, here or by RocketMQ, must know."""
        power_cut.note_boot(self.folders.ours)
        durable_progress.reserve(self.folders.ours)
        noted = self.checkpoint
        if self.report.known_from != OURS_KNOWN:
            # RocketMQ's own may promise an index that a crash from now on takes away.
            noted = checkpoint.careful(
                noted.physic_msg_timestamp,
                noted.logics_msg_timestamp,
                min(noted.index_msg_timestamp, self.index_kept_ms),
                noted.confirm_phy_offset,
            )
        checkpoint.write(self.folders.root, noted)

    def _unknown_queue(self, topic: str, queue_id: int, offset: int) -> bool:
        if offset < self.deletions.below(topic):
            return False
        if queue_id >= self.table.max_queues:
            raise StoreError(
                f"{self.folders.root.path}: the record at offset {offset} is of queue {queue_id} "
                f"of topic {topic}, and there is room for {self.table.max_queues}: raise "
                "max_queues. If the topic never had so many queues, that record is damaged"
            )
        if self.table.find(topic) is not None:
            raise QueueMissing(topic, queue_id)
        self._add_topic(topic, queue_id + 1)
        return True


def bring_back(
    folders: StoreFolders,
    settings: Settings,
    fresh_memory: Callable[[], tuple[Control, TopicTable]],
) -> Report:
    """Start-up, over again in fresh memory as long as the log knows of queues that nothing else
    did: one report of all that was done. Raises StoreError, Corrupt, OSError.
    """
    extra: dict[str, int] = {}
    report: Report | None = None
    while True:
        start_up = StartUp(folders, settings, *fresh_memory(), report)
        try:
            return start_up.run(extra)
        except QueueMissing as missing:
            extra[missing.topic] = missing.queue_id + 1
            report = start_up.report
