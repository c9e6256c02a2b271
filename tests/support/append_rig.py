"""A store's memory without its processes: control block, topic table, log, real rings. The append
actor takes it over as it would in a process of its own.

The producer here is written in plain Python from what `shm/ring.py` documents, so that the kernel
is not tested against the compiled producer's idea of a frame.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar, cast

from support.frames import FRAME, LIGHT, RESULT, STORE_HOST, TOPICS, Batch, Result, make_frame
from support.plain_records import encode_blank
from support.twins import Queue, twin_append

from silomq.actors.actor import OWN_SESSIONS, Session
from silomq.actors.append import Append
from silomq.shm import mail, ring
from silomq.shm._memory import Mapping
from silomq.shm.control import ACTORS, CONTROL, SIZE, ActorState, Control
from silomq.shm.metrics import SIZE as METRICS_SIZE
from silomq.shm.metrics import Metrics
from silomq.shm.ownership import STARTUP
from silomq.store.commitlog import _append as kernel
from silomq.store.commitlog.log import LogFile
from silomq.store.record.ids import Host
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable, Sequence

    from silomq.actors.actor import World


class RingProducer:
    """One session's ring, and the side of it that the client writes."""

    def __init__(
        self, capacity: int = ring.MIN_CAPACITY, session: int = 0, uid: int = 1000
    ) -> None:
        self.fd = ring.create(capacity, session)
        weakref.finalize(self, os.close, self.fd)
        self.memory = Mapping(self.fd, 0, ring.DATA + capacity)
        self.view = memoryview(self.memory)
        self.capacity = capacity
        self.session = session
        self.uid = uid
        self.head = 0

    @property
    def tail(self) -> int:
        return self.word("tail")

    def word(self, name: str) -> int:
        return int.from_bytes(self.view[ring.RING[name][0] : ring.RING[name][0] + 8], "little")

    def set_word(self, name: str, value: int) -> None:
        at = ring.RING[name][0]
        self.view[at : at + 8] = (value % 2**64).to_bytes(8, "little")

    def room(self, length: int) -> bool:
        """Whether a frame of `length` bytes, and the pad before it, fits now."""
        rest = self.capacity - self.head % self.capacity
        need = length if rest >= length else rest + length
        return self.capacity - (self.head - self.tail) >= need

    def place(self, frame: bytes | bytearray) -> int:
        """Writes a frame, after a pad if it would wrap, and publishes it: the frame's counter."""
        rest = self.capacity - self.head % self.capacity
        if rest < len(frame):
            at = ring.DATA + self.head % self.capacity
            self.view[at : at + 64] = FRAME.pack(rest, ring.KIND_PAD, 0, 0, 0, 0, 0, 0) + bytes(32)
            self.head += rest
        begin = self.head
        at = ring.DATA + begin % self.capacity
        self.view[at : at + len(frame)] = frame
        self.head += len(frame)
        self.set_word("head", self.head)
        return begin

    def result(self, begin: int) -> Result:
        at = ring.DATA + begin % self.capacity + 32
        return Result(*RESULT.unpack_from(self.view, at))

    def set_result(self, begin: int, result: Sequence[int]) -> None:
        RESULT.pack_into(self.view, ring.DATA + begin % self.capacity + 32, *result)

    def close(self) -> None:
        self.view.release()


class _Said:
    """What append says of its take-over: a logger."""

    queues_rolled_back = bytes_acknowledged = 0

    def warning(self, _event: str, *, queues_rolled_back: int, bytes_acknowledged: int) -> None:
        self.queues_rolled_back = queues_rolled_back
        self.bytes_acknowledged = bytes_acknowledged


def _event(stack: contextlib.ExitStack) -> int:
    """A descriptor to wait for, open as long as the stack."""
    fd = os.eventfd(0)
    stack.callback(os.close, fd)
    return fd


@dataclass
class _World:
    """As much of what a store's processes have in common as append takes over."""

    log: Rig  # which opens log files as CommitLog does
    settings: SimpleNamespace
    sessions: dict[int, Session]
    append_mail: tuple[socket.socket, socket.socket]
    pool: None = None
    syncs: bool = False

    def take_role(self, role: str) -> None:
        """From now on `control` and `table` may write the words of `role`, as World's."""
        self.control = Control(self.log.control.memory, role)
        self.table = TopicTable(self.log.table.memory, role)
        self.metrics = Metrics(self.log.metrics, role)


@dataclass
class Rig:
    """Shared memory, log files and an append kernel; `boot` replaces it as a restart does."""

    file_size: int = 1 << 20
    batch_bytes: int = 1 << 20
    append_crc: bool = False
    light: bool = False
    max_body: int = 4 << 20
    max_sessions: int = 4
    cores: int = 2
    store_host: Host = STORE_HOST
    #: Whether the kernel stages its batches, as it does under SYNC_FLUSH.
    staged: ClassVar[bool] = False
    rings: list[RingProducer] = field(default_factory=list)
    files: dict[int, memoryview] = field(default_factory=dict)
    descriptors: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = Plan(max_topics=8, max_queues=16, max_sessions=self.max_sessions)
        self.control = Control(bytearray(SIZE), STARTUP)
        self.control.create(1)
        self.metrics = bytearray(METRICS_SIZE)
        self.table = TopicTable.create(bytearray(plan.size), plan)
        for name, nums in self.topics.items():
            self.table.add_topic(name, write_nums=nums, read_nums=nums, perm=6)
        self.boot()

    @property
    def topics(self) -> dict[str, int]:
        """Each topic with its number of queues."""
        return TOPICS | (dict.fromkeys(LIGHT, 1) if self.light else {})

    @property
    def wrote(self) -> int:
        return self.control.load("wrote")

    @property
    def log(self) -> bytes:
        """All files, one behind the other; the first begins at offset 0."""
        return b"".join(bytes(self.files[base]) for base in sorted(self.files))

    def boot(self) -> None:
        """A new kernel over the memory as it is."""
        self.kernel = kernel.Appender(
            self.control.memory,
            self.table.memory,
            self.max_sessions,
            store_host=self.store_host.packed(),
            batch_bytes=self.batch_bytes,
            max_body=self.max_body,
            append_crc=self.append_crc,
            light=self.light,
            sleeper=CONTROL["reput_asleep"][0],
            cores=self.cores,
            metrics=self.metrics,
        )
        self.open_file()

    def open_file(self) -> None:
        base = self.base_of(self.wrote)
        mapping = self.open(base).mapping
        self.kernel.set_file(mapping, base, self.descriptors[base] if self.staged else -1)

    def base_of(self, offset: int) -> int:
        """The offset of the file that holds `offset`: as CommitLog's."""
        return offset - offset % self.file_size

    def open(self, base: int, *, writable: bool = True) -> LogFile:
        """The file at `base`, made if it is not there: as CommitLog's, in memory."""
        if base not in self.files:
            fd = self.descriptors[base] = os.memfd_create("log")
            weakref.finalize(self, os.close, fd)
            os.ftruncate(fd, self.file_size)
            self.files[base] = memoryview(Mapping(fd, 0, self.file_size, writable))
        mapping = self.files[base].obj
        assert isinstance(mapping, Mapping)
        return LogFile(base, mapping)

    def attach(self, producer: RingProducer, topics: Iterable[str] | None = None) -> None:
        """Adds a session that may write to `topics` (all by default)."""
        index = len(self.rings)
        producer.session = index
        self.rings.append(producer)
        for name in self.topics if topics is None else topics:
            topic = self.table.find(name)
            assert topic is not None
            self.table.grant(index, topic.index)
        self.kernel.attach(index, producer.memory, producer.capacity, index, producer.uid)

    def new_ring(self, topics: Iterable[str] | None = None, **arguments: int) -> RingProducer:
        producer = RingProducer(**arguments)
        self.attach(producer, topics)
        return producer

    def take_over(self) -> tuple[int, int]:
        """What the next append does before it appends: (queues rolled back, bytes acknowledged)."""
        self.control.own("ready").store(self.base_of(self.wrote) + self.file_size)
        with contextlib.ExitStack() as stack:
            world = self._world(stack)
            # As the supervisor notes a successor: it is the second to be started.
            self.control.store_process(ACTORS.index("append"), 0, 2, 0, ActorState.BOOTING)
            append = Append(world)
            append.signal_fd = _event(stack)
            append.logger = said = _Said()
            append.setup()
            append.poll.close()
        self.kernel = append.kernel
        return said.queues_rolled_back, said.bytes_acknowledged

    def _world(self, stack: contextlib.ExitStack) -> World:
        """What append takes over: the rig's memory, files and rings."""
        settings = SimpleNamespace(
            slow_operation_ms=1000,
            store_host=str(self.store_host).rpartition(":")[0].strip("[]"),
            store_port=self.store_host.port,
            max_sessions=self.max_sessions - len(OWN_SESSIONS),
            append_batch_bytes=self.batch_bytes,
            max_message_size=self.max_body,
            enabled_append_prop_crc=self.append_crc,
            sends_to_light_queues=self.light,
            ring_size_max=ring.MIN_CAPACITY,
        )
        sessions = {
            index: Session(index, index, p.fd, p.capacity, _event(stack), -1, p.uid)
            for index, p in enumerate(self.rings)
        }
        ends = mail.pair()
        for end in ends:
            stack.enter_context(end)
        world = _World(self, settings, sessions, ends)
        return cast("World", world)

    def run(self, *, most: int = 10_000) -> list[int]:
        """Runs the kernel until it has nothing to do; the rings it had to drop."""
        bad: list[int] = []
        reason = kernel.IDLE
        for _ in range(most):
            reason = self.kernel.run(0, 10**9)
            if reason == kernel.IDLE:
                return bad
            if reason == kernel.ROLL:
                self.open_file()
            elif reason == kernel.BAD_RING:
                bad.append(self.kernel.bad_ring)
                self.kernel.detach(self.kernel.bad_ring, ring.RingClosed.BAD_FRAME)
        raise AssertionError(f"append does not come to rest: reason {reason}")

    def frame(self, batch: Batch, **changes: int) -> bytearray:
        """The frame of `batch`; its records carry another store host, which append must set."""
        other = Host(bytes(len(self.store_host.address)), 0)
        records = batch.records(record_crc=self.append_crc, store_host=other)
        slot = self.table.slot(batch.topic, batch.queue_id)
        return make_frame(records, len(batch.messages), slot, **changes)

    def next_offsets(self) -> dict[Queue, int]:
        """The next queue offset of every queue that has messages."""
        values = self.table.queue_column("next")
        return {
            (topic.name, queue_id): values[slot]
            for topic in self.table.topics()
            for queue_id, slot in enumerate(topic.slots)
            if values[slot]
        }

    def twin(self, appended: Iterable[tuple[Batch, Result]]) -> tuple[bytes, int, dict[Queue, int]]:
        """(log, wrote, next offsets) that the twin makes of the batches, in the order of the log.

        A frame that does not fit ends the file, but the next file may begin with the frame of
        another ring, which would have fitted.
        """
        log, wrote, table = bytearray(), 0, dict[Queue, int]()
        for batch, result in sorted(appended, key=lambda pair: pair[1].physical_offset):
            records = batch.records(record_crc=self.append_crc, store_host=self.store_host)
            left = self.file_size - wrote % self.file_size
            if result.physical_offset == wrote + left and left < self.file_size:
                assert len(self.rings) > 1 or len(records) + 8 > left
                log[wrote : wrote + 8] = encode_blank(left)
                wrote += left
            wrote, (answer,) = twin_append(
                log,
                self.file_size,
                wrote,
                table,
                [records],
                store_timestamp=result.store_timestamp,
                record_crc=self.append_crc,
            )
            assert answer.physical_offset == result.physical_offset
        return bytes(log), wrote, table
