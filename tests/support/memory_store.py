"""A store that a test plays itself: what a producer connects to, in the test's own memory.

`MemoryStore` has what `client/session.py`'s Connection has. The test looks at the frames that a
producer has published, and answers them when and as it likes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from support.append_rig import RingProducer as RingMemory

from silomq.client._bell import Bell
from silomq.client.producing._sender import Sender
from silomq.client.producing.send_session import SendSession
from silomq.client.store_config import StoreConfig
from silomq.shm import bell, ring
from silomq.shm._bells import Bells
from silomq.shm._memory import Mapping
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.shm.protocol.answers import (
    Opened,
    OpenedDelayed,
)
from silomq.shm.protocol.requests import Open, OpenDelayed, OpenRetry
from silomq.store.errors import IllegalMessage
from silomq.store.reading.get_message import Transfer
from silomq.store.record.format import decode_record
from silomq.store.record.ids import LOCALHOST
from silomq.store.status import AckLevel, PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from silomq.client.session import Connection

_HEADER = struct.Struct("<8I")
CONFIG: dict[str, Any] = {
    "store": "memory",
    "store_host": LOCALHOST.packed(),
    "born_host": LOCALHOST.packed(),
    "born_address": bytes(4),
    "max_message_size": 1 << 22,
    "level": int(AckLevel.APPENDED),
    "sync_flush_timeout_ms": 5000,
    "append_crc": False,
    "light": False,
    "producer_spin_us": 20,
    "page_cache_busy_ms": 1000,
    "patience_s": 10.0,
    "key_epoch_ms": 1_700_000_000_000,
    "file_size_commit_log": 1 << 20,
    "file_size_consume_queue": 6000,
    "delay_levels": 18,
    "index_slots": 100,
    "index_entries": 400,
    "transfer": Transfer(40, 1 << 20, 32, 1 << 20, 32, 64),
}


class Frame(NamedTuple):
    """A published frame: the ring's counter at its begin, and what it holds: `number` records."""

    begin: int
    length: int
    kind: int
    number: int
    slot: int
    flags: int
    records: bytes

    @property
    def end(self) -> int:
        return self.begin + self.length


class MemoryStore:
    """A connection whose other end is the test. `config` are fields of StoreConfig."""

    def __init__(self, capacity: int = ring.MIN_CAPACITY, queues: int = 4, **config: Any) -> None:
        self.path = self.shown = "memory"
        self.session = 7
        self.config = StoreConfig(**{**CONFIG, **config})
        self.memory = RingMemory(capacity)
        self.ring = self.memory.memory
        self.capacity = capacity
        self.bell = os.eventfd(0, os.EFD_NONBLOCK)
        self.control = Control(bytearray(SIZE), STARTUP)
        self.control.own("append_asleep").store(1)  # asleep, so never stuck in a batch
        self.queues = queues
        self.requests: list[Open | OpenDelayed | OpenRetry] = []
        #: Topics that the registry refuses.
        self.refused: set[str] = set()
        self.alive = True
        #: Whether the registry has descriptors for a bell.
        self.makes_bells = True
        self.bells = Bells()
        self._own_bell: Bell | None = None
        self._offsets = itertools.count()

    # -- what a connection does

    def request(self, asked: Open | OpenDelayed | OpenRetry) -> Opened | OpenedDelayed:
        self.requests.append(asked)
        topic = "" if isinstance(asked, OpenRetry) else asked.topic
        if topic in self.refused:
            raise IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, f"{topic} may not be written")
        slots = tuple(100 + number for number in range(self.queues))
        if isinstance(asked, OpenDelayed):
            return OpenedDelayed(index=0, slots=slots, delayed=slots)
        return Opened(index=0, slots=slots)

    def is_alive(self) -> bool:
        return self.alive

    def own_bell(self) -> Bell:
        if not self.makes_bells:
            why = "no descriptors for another bell"
            raise IllegalMessage(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
        if self._own_bell is None:
            ends = bell.create(self.session)
            page = Mapping(ends.page, 0, bell.SIZE)
            os.close(ends.page)
            self.bells.attach(self.session, page, ends.store)
            self._own_bell = Bell(page, ends.client)
        return self._own_bell

    def close(self) -> None:
        self.alive = False
        self.bells.detach(self.session)
        if self._own_bell is not None:
            self._own_bell.close()
        with contextlib.suppress(OSError):
            os.close(self.bell)
        self.bell = -1

    def lose(self, why: ring.RingClosed = ring.RingClosed.STORE_STOPPED) -> None:
        """The store goes: it reads the ring no more, and hangs up."""
        self.memory.set_word("closed", why)
        self.alive = False
        self.bells.detach(self.session)

    # -- what append does

    def frames(self, start: int = 0) -> list[Frame]:
        """The published frames from counter `start` on, pads included."""
        found = []
        head = self.memory.word("head")
        while start < head:
            at = ring.DATA + start % self.capacity
            view = self.memory.view
            length, kind, _, size, count, slot, flags, _ = _HEADER.unpack_from(view, at)
            records = bytes(view[at + ring.FRAME_HEADER : at + ring.FRAME_HEADER + size])
            found.append(Frame(start, length, kind, count, slot, flags, records))
            start += length
        return found

    def records(self) -> list[bytes]:
        """The records of each frame that is not answered."""
        frames = self.frames(self.memory.tail)
        return [frame.records for frame in frames if frame.kind == ring.KIND_RECORDS]

    def bodies(self) -> list[bytes]:
        """The bodies of `records`, of a batch the first."""
        return [decode_record(records, check_crc=False).body for records in self.records()]

    def keys(self) -> list[str | None]:
        """The UNIQ_KEYs of `records`, of a batch the first."""
        found = (decode_record(records, check_crc=False) for records in self.records())
        return [record.properties.get("UNIQ_KEY") for record in found]

    def write_results(self, *statuses: int) -> list[Frame]:
        """Answers the next frames, one for each status, but does not move `tail`."""
        frames = []
        left = iter(statuses)
        for frame in self.frames(self.memory.tail):
            if frame.kind == ring.KIND_RECORDS:
                status = next(left, None)
                if status is None:
                    break
                number = next(self._offsets)
                self.memory.set_result(frame.begin, (status, number * 1000, number, 1234))
            frames.append(frame)
        return frames

    def answer(self, *statuses: int) -> None:
        """Answers the next frames, one for each status, in this order."""
        frames = self.write_results(*statuses)
        if frames:
            self.memory.set_word("tail", frames[-1].end)
            self.bells.ring(bell.Reason.ANSWERS)

    def sync(self, flushed: int) -> None:
        """The log is durable below this offset, as flush says it."""
        self.control.own("flushed").store(flushed)
        self.bells.ring(bell.Reason.FLUSHED)

    def answer_all(self) -> int:
        """Answers all published frames with PUT_OK; how many."""
        count = len(self.records())
        self.answer(*[0] * count)
        return count


def connect(
    *stores: MemoryStore, timeout: float = 5.0, on_restart: str = "error", reconnect: float = 5.0
) -> Sender:
    """A sender with a session to the first store. It finds the others, in turn, when it reconnects:
    a store that is not alive cannot be reached yet.
    """
    left = list(stores)

    def open_next() -> Connection:
        from silomq import StoreClosed

        if not left or not left[0].alive:
            raise StoreClosed("no store runs there")
        return cast("Connection", left.pop(0))

    session = SendSession(
        open_next, timeout_s=timeout, on_restart=on_restart, reconnect_timeout_s=reconnect
    )
    return Sender(session)


@contextlib.contextmanager
def answering(store: MemoryStore) -> Iterator[None]:
    """Answers whatever is sent meanwhile, from another thread."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            store.answer_all()
            time.sleep(0.0005)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    """Starts a thread that does `work`."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread
