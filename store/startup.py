"""Start-up: from the files of a stopped or crashed store to shared tables that the actors go on
from.

The work is bounded by what was not durable: the commit log is scanned from where the progress
record says that it was flushed, dispatch goes on from where queues and index were. Runs in the
supervisor before any actor exists, so it may write every word.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field

from ..conf.settings import Settings
from ..shm.control import Control
from . import _scan as kernel
from . import disk, progress, tails, topics_json
from .commitlog import CommitLog
from .consumequeue import QueueFiles, entries_below
from .dispatching import Dispatching
from .errors import Corrupt, StoreError
from .index import IndexFiles
from .paths import ABORT, LAYOUT_FILE, LAYOUT_VERSION, TOPICS, StoreFolders, file_name
from .table import TopicTable

_ENDS = {
    kernel.NOTHING: "no record follows",
    kernel.BAD_LENGTHS: "a record whose lengths do not add up",
    kernel.BAD_CRC: "a record whose body fails its CRC",
    kernel.BAD_OFFSET: "a record that names another offset",
    kernel.FULL: "the file is full",
    kernel.TORN: "a record with zeros for parts of its topic or properties",
    kernel.END_OF_FILE: "the file is closed",
}


@dataclass
class Report:
    """What start-up found and did: offsets in bytes, times in ms."""

    clean: bool = False
    files: int = 0
    scanned_from: int = 0
    log_end: int = 0
    end_reason: str = ""
    records_scanned: int = 0
    dispatched_from: int = 0
    entries_dispatched: int = 0
    index_entries_undone: int = 0
    topics: int = 0
    queues: int = 0
    duration_ms: int = 0
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


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
        disk.replace_file(folders.ours, LAYOUT_FILE, f"{LAYOUT_VERSION}\n".encode())
        return
    if not text.isdigit() or int(text) > LAYOUT_VERSION:
        raise StoreError(
            f"{folders.ours.path}/{LAYOUT_FILE} says {text!r}: the store was made by a newer "
            f"SiloMQ (this one knows layouts up to {LAYOUT_VERSION}); start it with that version"
        )


def find_end(log: CommitLog, start: int, *, check_crc: bool) -> tuple[int, int, int, int]:
    """Scans from offset `start`: (end of the log, records, newest store timestamp, why it
    ended).
    """
    records = newest = 0
    end, why = start, kernel.NOTHING
    bases = set(log.bases())
    while log.base_of(end) in bases:
        base = log.base_of(end)
        view = memoryview(log.open(base).mapping)
        position, count, stored, why = kernel.scan(
            view, end - base, base, check_crc, refuse_torn=True
        )
        records += count
        newest = max(newest, stored)
        end = base + position
        if why not in (kernel.END_OF_FILE, kernel.FULL):
            break
    return end, records, newest, why


def refuse_data_behind(log: CommitLog, end: int, why: int) -> None:
    """Raises Corrupt if a file behind the one where the log ends holds a record: that is damage,
    not a torn tail.
    """
    for base in log.bases():
        if base <= end:
            continue
        view = memoryview(log.open(base).mapping)
        _, records, _, _ = kernel.scan(view[: 1 << 20], 0, base, check_crc=False)
        if records:
            raise Corrupt(
                f"{log.folders.commit_log.path}/{file_name(log.base_of(end))}",
                end,
                f"{_ENDS[why]}, but the file {file_name(base)} behind it holds records: the store "
                "does not cut good data; restore the damaged file from a copy",
            )


class StartUp:
    """One start of the store in `folders`. `run` fills `control` and `table`, and returns the
    report.
    """

    def __init__(
        self, folders: StoreFolders, settings: Settings, control: Control, table: TopicTable
    ) -> None:
        self.settings = settings
        self.folders = folders
        self.control = control
        self.table = table
        self.log = CommitLog(folders, settings.mapped_file_size_commit_log)
        self.queues = QueueFiles(folders.consume_queue, settings.mapped_file_size_consume_queue)
        self.index = IndexFiles(folders.index, settings.max_hash_slot_num, settings.max_index_num)
        self.report = Report()
        self.power_lost = False

    def run(self, extra_queues: dict[str, int] | None = None) -> Report:
        """Raises StoreError, Corrupt, OSError; QueueMissing when the caller must start over with
        more queues.
        """
        began = time.monotonic()
        found = progress.read(self.folders.ours)
        self._recover_log(found)
        self._load_topics(extra_queues or {})
        found = self._recover_queues(found)
        self._dispatch(found)
        tails.note_boot(self.folders.ours)
        self.report.topics = self.table.topic_count
        self.report.queues = self.table.queue_count
        self.report.duration_ms = round((time.monotonic() - began) * 1000)
        return self.report

    def _recover_log(self, found: dict[str, int] | None) -> None:
        for name in self.log.remove_half_made():
            self.report.notes.append(f"removed a half-made commit-log file ({name})")
        bases = self.log.bases()
        self.report.files = len(bases)
        first = bases[0] if bases else 0
        start = max(first, found["flushed"]) if found else first
        end, newest, why = start, 0, kernel.NOTHING
        # Also after a clean stop: RocketMQ may have gone on with the store, and does not know our
        # record.
        self.report.clean = (
            bool(found and found["clean"]) and ABORT not in self.folders.root.names()
        )
        self.power_lost = not self.report.clean and tails.machine_stopped(self.folders.ours)
        if bases:
            check = self.settings.check_crc_on_recover
            end, self.report.records_scanned, newest, why = find_end(
                self.log, start, check_crc=check
            )
            if self.power_lost:
                self.report.notes += tails.cut_log(self.log, end)
                bases = self.log.bases()
            refuse_data_behind(self.log, end, why)
            for base in bases:
                if start < base + self.log.file_size and base < end:
                    self.log.sync(base)
        self.report.scanned_from, self.report.log_end = start, end
        self.report.end_reason = _ENDS[why]
        own = self.control.own
        own("min_offset").store(first)
        for word in ("wrote", "committed", "flushed"):
            own(word).store(end)
        own("store_time_ms").store(max(newest, found["store_time_ms"] if found else 0))
        ready = self.log.base_of(end)
        while ready in bases:
            ready += self.log.file_size
        own("ready").store(ready)

    def _load_topics(self, extra_queues: dict[str, int]) -> None:
        saved, loaded = topics_json.load(f"{self.folders.config.path}/{TOPICS}")
        if loaded.problem:
            self.report.notes.append(f"topics.json: {loaded.problem}")
        needed = dict(extra_queues)
        for topic, queue_id, _ in self.queues.queues():
            needed[topic] = max(needed.get(topic, 0), queue_id + 1)
        for name, config in saved.topics.items():
            write_nums = max(config.write_queue_nums, needed.pop(name, 0))
            self.table.add_topic(
                name,
                write_nums=write_nums,
                read_nums=max(config.read_queue_nums, write_nums),
                perm=config.perm,
            )
        for name, least in needed.items():
            nums = max(least, self.settings.default_topic_queue_nums)
            self.table.add_topic(name, write_nums=nums, read_nums=nums, perm=6)

    def _recover_queues(self, found: dict[str, int] | None) -> dict[str, int] | None:
        """Where dispatch begins; the progress that is true, None if all must be dispatched anew."""
        self._count_queues(found["dispatched"] if found else self.control.load("min_offset"))
        missing = self._missing(found) if found else ""
        if not missing:
            return found
        self.report.notes.append(f"{missing}: queues and index are built anew from the commit log")
        self._count_queues(self.control.load("min_offset"))
        return None

    def _missing(self, found: dict[str, int]) -> str:
        """What the progress record counts on and is not there any more; empty: nothing."""
        entries = sum(self.table.queue_column("max_offset"))
        if entries < found["dispatch_count"]:
            return f"the queues hold {entries} entries of {found['dispatch_count']}"
        name = found["index_name"]
        if self.settings.message_index_enable and name and name not in self.index.names():
            return f"the index file {name} is gone"
        return ""

    def _count_queues(self, dispatched: int) -> None:
        self.report.dispatched_from = dispatched
        for topic, queue_id, folder in self.queues.queues():
            slot = self.table.slot(topic, queue_id)
            count = entries_below(folder, self.queues.file_size, dispatched)
            self.table.own_queue_word(slot, "max_offset").store(count)

    def _dispatch(self, found: dict[str, int] | None) -> None:
        published = dict.fromkeys(self.control.progress(), 0)
        if found:
            published = {name: found[name] for name in published}
        published["dispatched"] = self.report.dispatched_from
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
        self.report.index_entries_undone = dispatching.undone
        if self.report.log_end > self.report.dispatched_from:
            while not dispatching.step(10**12):
                pass
        self.report.entries_dispatched = (
            self.control.load("dispatch_count") - published["dispatch_count"]
        )
        counts = self.table.queue_column("max_offset")
        if self.power_lost:
            tails.cut_queues(
                self.queues,
                [
                    (topic, queue_id, counts[self.table.slot(topic, queue_id)])
                    for topic, queue_id, _ in self.queues.queues()
                ],
            )
        for slot, count in enumerate(counts):
            self.table.own_queue_word(slot, "next").store(count)

    def _unknown_queue(self, topic: str, queue_id: int) -> None:
        if self.table.find(topic) is not None:
            raise QueueMissing(topic, queue_id)
        nums = max(queue_id + 1, self.settings.default_topic_queue_nums)
        self.table.add_topic(topic, write_nums=nums, read_nums=nums, perm=6)
