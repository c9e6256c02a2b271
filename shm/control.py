"""The control block: the positions, flags and heartbeats that a store's processes share.

Each store has one such block: a posix_ipc segment that its actors write and its clients map
read-only. Every word is an unsigned 64-bit integer with one writer, which the table names at the
start of the meaning. A word without a writer is written at start-up, before the first actor runs.
Words with different writers lie on different cache lines (128 bytes, because CPUs fetch lines in
pairs), and so do words that one process polls while another changes their neighbours.

Positions are absolute offsets of the commit log, in bytes. "S" at the end of a row: the word keeps
its value when its writer is replaced. `flushed` is a futex for producers, `dispatched` for readers
of many queues, `ready` for append.

Layout control:

======  =====  ====  ===================  =======
offset  size   type  field                meaning
======  =====  ====  ===================  =======
0       8      u64   magic                "SILOCTL1", written last
8       8      u64   layout_version       of this table; a client with another one refuses
16      8      u64   store_id             names the store's other segments
24      8      u64   header_crc           CRC-32C of bytes 8..24
128     8      u64   state                supervisor: a StoreState. readers: all
136     8      u64   generation           supervisor: counts starts of this control block's store
144     8      u64   started_ms           supervisor: epoch ms
152     8      u64   append_mail          supervisor: messages to append so far. readers: append
160     8      u64   sessions             supervisor: client sessions it holds. readers: cli
168     8      u64   logging              supervisor: level and format of all log lines
176     8      u64   run_stamp            of the file `abort`; 0 until the start is over
184     8      u64   failed               supervisor: bit n: actor n lacks a file. readers: append
192     8      u64   bell_mail            supervisor: messages to flush and reput so far
256     8      u64   wrote                append: end of the last whole (or end-of-file) record; S
264     8      u64   store_time_ms        append: newest store timestamp given out; S
272     8      u64   records              append: records appended so far; S
280     8      u64   rejected             append: frames answered with an error status; S
288     8      u64   file_wanted          append: offset of the file it waited for last
384     8      u64   append_asleep        append: 1 while it sleeps in epoll. readers: producers
392     8      u64   crowded              append: 1 while it and the senders are more than the cores
512     8      u64   committed            commit: all below is written to files; S
640     8      u64   commit_asleep        commit: 1 while it sleeps
768     8      u64   flushed              flush: all below is durable; S
776     8      u64   flushes              flush: syncs of the log so far; reput sleeps on it; S
784     8      u64   flush_error          flush: errno of a failed sync, store read-only since; S
896     8      u64   flush_asleep         flush: 1 while it sleeps on `wrote`. readers: append
1024    8      u64   dispatched           reput: all below is in queues and index; S
1032    8      u64   dispatch_count       reput: queue entries written so far; S
1152    8      u64   reput_asleep         reput: 1 while it sleeps (`World.dispatch_news`)
1280    8      u64   ready                allocate: end of the last prepared commit-log file; S
1288    8      u64   allocate_error       allocate: errno of the last failure, 0 after success; S
1296    8      u64   locked_bytes         allocate: bytes locked in memory
1304    8      u64   warmed               allocate: log in memory below, if warmed. readers: append
1408    8      u64   min_offset           clean: start of the first commit-log file; S
1416    8      u64   disk_flags           clean: disk-full bits. readers: append, clients; S
1424    8      u64   log_disk_used        clean: the commit log's disk, %; 2^64-1 = not known
1432    8      u64   queue_disk_used      clean: the consume queues' disk, %; 2^64-1 = not known
1440    8      u64   cleaned_ms           clean: epoch ms of the last removal, 0 = none yet; S
1448    8      u64   files_removed        clean: commit-log files removed so far; S
1456    8      u64   manual_seen          clean: requests of `manual_asked` it has taken up; S
1464    8      u64   manual_runs          clean: runs left of the last request; S
1536    8      u64   topics               registry: topics in the table. readers: cli
1544    8      u64   manual_asked         registry: requests to clean now. readers: clean; S
1664    128    u64   watched              registry: bit per arrival word that has sleepers; S
1792    8      u64   schedule_floor       schedule: log offset of the first delayed message; S
1920    8      u64   trans_floor          transactions: log offset of the first open half; S
1928    8      u64   trans_half_next      transactions: halves below it are done, durably; S
1936    8      u64   trans_op_next        transactions: first op record that is needed; S
2048    1024   line  process              supervisor: 16 × 64 bytes: pid, starts, started_ms, state
3072    1024   line  heartbeat            each: its own 64 bytes: beat_ns (CLOCK_MONOTONIC)
4096    8      u64   progress_generation  reput: the valid progress slot is generation % 2; S
4224    128    line  progress_0           reput: a progress slot (`progress.py`); S
4352    128    line  progress_1           reput: a progress slot; S
8192    8192   u64   arrival              reput: word (queue slot % 1,024) changes as queues grow
======  =====  ====  ===================  =======
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING

from ._checksum import crc32c
from ._words import OwnedWord, Word
from .ownership import READER, STARTUP, check_writer
from .progress import PROGRESS, Progress

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = int.from_bytes(b"SILOCTL1", "little")
LAYOUT_VERSION = 1
SIZE = 16384
ARRIVAL_WORDS = 1024
PROCESS_SIZE = HEARTBEAT_SIZE = 64
_HEADER = struct.Struct("<QQ")

CONTROL: dict[str, tuple[int, int]] = {
    "magic": (0, 8),
    "layout_version": (8, 8),
    "store_id": (16, 8),
    "header_crc": (24, 8),
    "state": (128, 8),
    "generation": (136, 8),
    "started_ms": (144, 8),
    "append_mail": (152, 8),
    "sessions": (160, 8),
    "logging": (168, 8),
    "run_stamp": (176, 8),
    "failed": (184, 8),
    "bell_mail": (192, 8),
    "wrote": (256, 8),
    "store_time_ms": (264, 8),
    "records": (272, 8),
    "rejected": (280, 8),
    "file_wanted": (288, 8),
    "append_asleep": (384, 8),
    "crowded": (392, 8),
    "committed": (512, 8),
    "commit_asleep": (640, 8),
    "flushed": (768, 8),
    "flushes": (776, 8),
    "flush_error": (784, 8),
    "flush_asleep": (896, 8),
    "dispatched": (1024, 8),
    "dispatch_count": (1032, 8),
    "reput_asleep": (1152, 8),
    "ready": (1280, 8),
    "allocate_error": (1288, 8),
    "locked_bytes": (1296, 8),
    "warmed": (1304, 8),
    "min_offset": (1408, 8),
    "disk_flags": (1416, 8),
    "log_disk_used": (1424, 8),
    "queue_disk_used": (1432, 8),
    "cleaned_ms": (1440, 8),
    "files_removed": (1448, 8),
    "manual_seen": (1456, 8),
    "manual_runs": (1464, 8),
    "topics": (1536, 8),
    "manual_asked": (1544, 8),
    "watched": (1664, 128),
    "schedule_floor": (1792, 8),
    "trans_floor": (1920, 8),
    "trans_half_next": (1928, 8),
    "trans_op_next": (1936, 8),
    "process": (2048, 1024),
    "heartbeat": (3072, 1024),
    "progress_generation": (4096, 8),
    "progress_0": (4224, 128),
    "progress_1": (4352, 128),
    "arrival": (8192, 8192),
}
#: The writers of a field of which each process writes one part, that with its number.
_EACH = "each"
_WRITTEN_BY = {
    "supervisor": (
        "state", "generation", "started_ms", "append_mail", "sessions", "logging", "failed",
        "bell_mail", "process",
    ),
    "append": (
        "wrote", "store_time_ms", "records", "rejected", "file_wanted", "append_asleep", "crowded",
    ),
    "commit": ("committed", "commit_asleep"),
    "flush": ("flushed", "flushes", "flush_error", "flush_asleep"),
    "reput": (
        "dispatched", "dispatch_count", "reput_asleep", "progress_generation", "progress_0",
        "progress_1", "arrival",
    ),
    "allocate": ("ready", "allocate_error", "locked_bytes", "warmed"),
    "clean": (
        "min_offset", "disk_flags", "log_disk_used", "queue_disk_used", "cleaned_ms",
        "files_removed", "manual_seen", "manual_runs",
    ),
    "registry": ("topics", "manual_asked", "watched"),
    "schedule": ("schedule_floor",),
    "transactions": ("trans_floor", "trans_half_next", "trans_op_next"),
    _EACH: ("heartbeat",),
}  # fmt: skip
#: Layout -> field -> writer; a field that is missing is written at start-up.
WRITERS = {"control": {name: who for who, fields in _WRITTEN_BY.items() for name in fields}}
LAYOUTS = {"control": CONTROL}

# The processes in the order in which they start: the index is the entry in the process table.
ACTORS = (
    *("allocate", "append", "commit", "flush", "reput", "clean", "registry", "schedule"),
    "transactions",
)
#: The bits in the word `failed` of actors without which a store takes no messages.
NEEDED = sum(1 << ACTORS.index(name) for name in ("append", "commit", "flush", "reput"))
SUPERVISOR = 15
assert len(ACTORS) < SUPERVISOR


class StoreState(enum.IntEnum):
    """The state of the whole store, from its start to its stop."""

    STARTING = 0
    RUNNING = 1
    DRAINING = 2
    STOPPED = 3


class ActorState(enum.IntEnum):
    """The state of one process as the supervisor knows it."""

    ABSENT = 0
    BOOTING = 1
    READY = 2
    DEAD = 3
    STOPPING = 4


def process_number(role: str) -> int:
    """The entry of the actor `role`, or of the supervisor, in the process table."""
    return SUPERVISOR if role == "supervisor" else ACTORS.index(role)


def failed_actors(failed: int) -> list[str]:
    """The actors whose bits the word `failed` has."""
    return [name for number, name in enumerate(ACTORS) if failed >> number & 1]


class Control:
    """The control block in `memory` (SIZE bytes), as a process with `role` may use it.

    `word` gives a handle that can load and wait, `own` one that can also store. Methods that write
    raise NotTheWriter as `own` does.
    """

    def __init__(self, memory: Buffer, role: str = READER) -> None:
        self.memory = memory
        self.role = role

    def word(self, field: str, extra: int = 0) -> Word:
        """A word to read; `extra` is its position within a field of several words, in bytes."""
        return Word(self.memory, _position(field, extra))

    def own(self, field: str, extra: int = 0) -> OwnedWord:
        """A word to write. Raises NotTheWriter if another role writes it."""
        writer = WRITERS["control"].get(field, STARTUP)
        if writer == _EACH:
            number = extra // HEARTBEAT_SIZE
            writer = ACTORS[number] if number < len(ACTORS) else "supervisor"
        check_writer(field, writer, self.role)
        return OwnedWord(self.memory, _position(field, extra))

    def load(self, field: str) -> int:
        """The value of a word. In a loop a handle from `word` is faster."""
        return self.word(field).load()

    def arrival(self, queue_slot: int) -> Word:
        """The word that changes when the queue in `queue_slot` (or one that shares it) grows."""
        return self.word("arrival", 8 * (queue_slot % ARRIVAL_WORDS))

    def watch(self, queue_slot: int) -> None:
        """Makes reput wake the sleepers on this queue's arrival word. For the registry."""
        index, bit = divmod(queue_slot % ARRIVAL_WORDS, 64)
        word = self.own("watched", 8 * index)
        word.store(word.load() | 1 << bit)  # SYNC: watched publish

    def watch_none(self) -> None:
        """Makes reput wake no sleepers on arrival words until `watch`. For the registry."""
        for index in range(ARRIVAL_WORDS // 64):
            self.own("watched", 8 * index).store(0)

    def create(self, store_id: int) -> None:
        """Writes the header of a new block. The magic comes last, so that a block with a magic has
        a whole header. For start-up.
        """
        body = _HEADER.pack(LAYOUT_VERSION, store_id)
        self.own("layout_version").store(LAYOUT_VERSION)
        self.own("store_id").store(store_id)
        self.own("header_crc").store(crc32c(body))
        self.own("magic").store(MAGIC)

    def check(self) -> None:
        """Raises LayoutError unless this is a whole control block of this layout."""
        if self.load("magic") != MAGIC:
            raise LayoutError("not a SiloMQ control block (its magic is missing)")
        version = self.load("layout_version")
        if version != LAYOUT_VERSION:
            raise LayoutError(
                f"the store runs layout version {version}, this program knows {LAYOUT_VERSION}: "
                "use the same SiloMQ version on both sides"
            )
        body = _HEADER.pack(version, self.load("store_id"))
        if crc32c(body) != self.load("header_crc"):
            raise LayoutError("the control block's header fails its CRC-32C")

    def progress(self) -> Progress:
        """The published progress of reput."""
        while True:
            generation = self.load("progress_generation")  # SYNC: progress observe
            slot = f"progress_{generation % 2}"
            words = [self.word(slot, at).load() for at, _ in PROGRESS.values()]
            # A slot is rewritten only after the other was published: so all are of one publication.
            if self.load("progress_generation") == generation:
                return Progress.of(words)

    def set_progress(self, progress: Progress) -> None:
        """Publishes progress, at start-up. Later reput's kernel does it, in the same order."""
        generation = self.load("progress_generation") + 1
        for name, value in progress.fields().items():
            self.own(f"progress_{generation % 2}", PROGRESS[name][0]).store(value)
        self.own("progress_generation").store(generation)
        self.own("dispatched").store(progress.dispatched)
        self.own("dispatch_count").store(progress.dispatch_count)

    def store_process(
        self, actor: int, pid: int, starts: int, started_ms: int, state: ActorState
    ) -> None:
        """Writes an entry of the process table. For the supervisor."""
        for i, value in enumerate((pid, starts, started_ms, int(state))):
            self.own("process", PROCESS_SIZE * actor + 8 * i).store(value)

    def process(self, actor: int) -> tuple[int, int, int, ActorState]:
        """(pid, starts, started_ms, state) of an entry of the process table."""
        at = PROCESS_SIZE * actor
        words = (self.word("process", at + 8 * i) for i in range(4))
        pid, starts, started_ms, state = (word.load() for word in words)
        return pid, starts, started_ms, ActorState(state)

    def state_of(self, process: str) -> Word:
        """The state of an actor, to read."""
        return self.word("process", PROCESS_SIZE * process_number(process) + 24)

    def beat(self, process: str) -> Word:
        """The heartbeat of an actor, or of the supervisor, to read."""
        return self.word("heartbeat", HEARTBEAT_SIZE * process_number(process))

    def own_beat(self) -> OwnedWord:
        """The heartbeat of this process, to write."""
        return self.own("heartbeat", HEARTBEAT_SIZE * process_number(self.role))


def _position(field: str, extra: int) -> int:
    """The position of a word in the block. Raises IndexError if it is not within its field."""
    offset, size = CONTROL[field]
    if not 0 <= extra <= size - 8:
        raise IndexError(f"{field} has {size} bytes, and no word at {extra}")
    return offset + extra


class LayoutError(Exception):
    """Shared memory that this version of SiloMQ cannot read."""
