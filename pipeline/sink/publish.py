"""Publishes staged rows as messages of a store, each exactly once, whichever process is killed
meanwhile.

A message's UNIQ_KEY is made of its sink, its batch, and its row's number in the batch. So the log
itself says what was published. The order of steps:

1. every topic is opened and its queues are counted: a batch that cannot be sent is refused whole;
2. the ledger says *begun*: the staged files, where the log ends, which session will publish;
3. the rows are sent; their answers are awaited (and, if asked for, until they are durable);
4. the ledger says *done*; the staged files are removed.

A publisher that finds a batch begun finishes it. Frames that a dead publisher left in its ring may
still be appended, so first its session must have ended. The store ends a session when all that it
published is appended. Then the log is read from where it ended at step 2, and rows that are found
are not sent again.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ... import SendFuture
from ...client.producing._sender import session_of
from ...client.producing.producer import Producer
from ...client.session import Connection
from ...shm.protocol.requests import IsOpen
from ...store.commitlog.log_reader import map_log_file
from ...store.disk.files import Folder
from ...store.disk.paths import COMMIT_LOG
from ...store.errors import StoreError
from ...store.reading.columns import LogScan
from ...store.status import AckLevel
from .ledger import Begun, Ledger, State, staging_of
from .rows import LEVELS_END, BadRow
from .rows import STAGED as COLUMNS

_PREFIX_DIGITS: Final = 20
_POLL_S: Final = 0.005


@dataclass(frozen=True)
class Target:
    """Where and how a sink publishes. `sinks` is the folder of ledgers, `window` the greatest
    number of unanswered messages, `durable` whether a batch waits for the disk.
    """

    store: str
    sinks: Path
    sink: str
    durable: bool = False
    window: int = 4096
    timeout_s: float = 60.0


def key_prefix(sink: str, batch: int) -> str:
    """The prefix of a batch's UNIQ_KEYs: 20 digits, which 12 digits with the row's number
    follow.
    """
    digest = hashlib.sha256(f"{sink}\0{batch}".encode()).hexdigest()
    return digest[:_PREFIX_DIGITS].upper()


def publish(target: Target, batch: int, files: list[str], topics: dict[str, int]) -> int:
    """Publishes a batch, or the rows of it that are missing, and removes its staged files. Returns
    how many messages were sent. `topics` are its topics with the highest queue asked for, -1
    without.

    A batch that an earlier publisher began is finished first. A batch that is done is not sent
    again. Raises BadRow, StoreError, OSError. A batch that was begun then stays begun, and the next
    call finishes it.
    """
    sent = 0
    with Ledger(target.sinks, target.sink, target.timeout_s) as ledger:
        if ledger.state.begun is not None or batch > ledger.state.done:
            with Publisher(target, ledger) as publisher:
                if ledger.state.begun is not None:
                    sent += publisher.go_on(ledger.state.begun)
                if batch > ledger.state.done:
                    sent += publisher.begin(batch, files, topics)
        ledger.discard(max(batch, ledger.state.done))
    return sent


class Publisher:
    """One session with the store, for the process that holds the ledger."""

    def __init__(self, target: Target, ledger: Ledger) -> None:
        self.target = target
        self.ledger = ledger

    def __enter__(self) -> Self:
        self.link = Connection(self.target.store, client="sink")
        try:
            self.producer = Producer(self.target.store, timeout=self.target.timeout_s)
        except BaseException:
            self.link.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.producer.close()
        self.link.close()

    def begin(self, batch: int, files: list[str], topics: dict[str, int]) -> int:
        """Publishes a batch of which nothing is published yet. Returns how many messages were sent.
        Raises BadRow.
        """
        for topic, highest in topics.items():
            queues = self.producer.open_topic(topic)
            if highest >= queues:
                raise BadRow(
                    f"queueId {highest}: topic {topic} has queues 0 to {queues - 1}; nothing of "
                    "this write was published"
                )
        begun = Begun(batch, files, self._wrote(), session_of(self.producer).number)
        return self._publish(begun, None)

    def go_on(self, begun: Begun) -> int:
        """Finishes a batch that an earlier publisher began: rows that are in the log are not sent
        again.
        """
        self._await_end_of(begun)
        # A power cut may have taken the log's end, and with it a part of the batch.
        start = min(begun.scan_from, self._wrote())
        found = set(self._published(key_prefix(self.ledger.name, begun.batch), start))
        number = session_of(self.producer).number
        mine = msgspec.structs.replace(begun, scan_from=start, session=number)
        return self._publish(mine, found)

    def _publish(self, begun: Begun, found: set[int] | None) -> int:
        done = self.ledger.state.done
        self.ledger.save(State(done, begun))
        sent = self._send(begun, found or set())
        if self.target.durable:
            self._await_durable()
        self.ledger.save(State(max(done, begun.batch)))
        return sent

    # -- sending

    def _send(self, begun: Begun, found: set[int]) -> int:
        prefix = key_prefix(self.ledger.name, begun.batch)
        send, wait_s = self.producer.send_async, self.target.timeout_s
        under_way: deque[SendFuture] = deque()
        sent, numbered = 0, False
        rows = enumerate(_rows(staging_of(self.target.sinks, self.ledger.name), begun.files), 1)
        for number, (topic, body, tags, keys, properties, queue, delay, born, flag) in rows:
            if number in found:
                numbered = False
                continue
            if not numbered:
                session_of(self.producer).number_keys(prefix, number)
                numbered = True
            level = delay if delay is not None and delay < LEVELS_END else 0
            future = send(
                topic,
                body,
                tags=tags or None,
                keys=keys or None,
                properties=dict(properties) if properties else None,
                flag=flag or 0,
                queue=queue,
                born_timestamp=born,
                delay_level=level,
                deliver_at=delay if delay is not None and delay >= LEVELS_END else None,
                timeout=wait_s,
            )
            sent += 1
            under_way.append(future)
            if len(under_way) >= self.target.window:
                while len(under_way) > self.target.window // 2:
                    under_way.popleft().result(wait_s)
        while under_way:
            under_way.popleft().result(wait_s)
        return sent

    def _await_durable(self) -> None:
        """Waits until all that is in the log now is on the disk. Raises StoreError."""
        end, control = self._wrote(), self.link.control
        deadline = time.monotonic() + self.target.timeout_s
        while control.load("flushed") < end:
            if control.load("flush_error") or time.monotonic() > deadline:
                raise StoreError(
                    f"the batch is in the log of {self.target.store}, which is durable only up to "
                    f"{control.load('flushed')}, not {end}, after {self.target.timeout_s:g} s: "
                    "check the disk; the next attempt continues from here"
                )
            time.sleep(_POLL_S)

    # -- finding what an earlier publisher has sent

    def _wrote(self) -> int:
        """Where the log ends. With a pool its last bytes may not be in a file yet."""
        return self.link.control.load("wrote")

    def _await_end_of(self, begun: Begun) -> None:
        """Waits until everything that the earlier publisher's session published is appended. Raises
        StoreError.
        """
        deadline = time.monotonic() + self.target.timeout_s
        while self.link.request(IsOpen(begun.session)).open:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"sink {self.ledger.name}: the process that began batch {begun.batch} still "
                    f"has its session {begun.session} with {self.target.store}: stop it"
                )
            time.sleep(_POLL_S)

    def _published(self, prefix: str, start: int) -> Iterator[int]:
        """Numbers of the batch's rows that are in the log from `start` on. Raises StoreError."""
        config, control = self.link.config, self.link.control
        end = self._wrote()
        deadline = time.monotonic() + self.target.timeout_s
        while config.level == AckLevel.MEMORY and control.load("committed") < end:
            if time.monotonic() > deadline:
                raise StoreError(f"{self.target.store}: the pool is not committed up to {end}")
            time.sleep(_POLL_S)
        if start < control.load("min_offset"):
            raise StoreError(
                f"sink {self.ledger.name}: the log of {self.target.store} was cleaned up to "
                f"{control.load('min_offset')}, and what was published of its last batch from "
                f"{start} on cannot be told any more; compare its topics with the source, then "
                f"remove {self.target.sinks / self.ledger.name}.json and take a new checkpoint"
            )
        size = config.file_size_commit_log
        with Folder.open(Path(self.target.store) / COMMIT_LOG) as folder:
            for base in range(start - start % size, end, size):
                mapping = map_log_file(folder, base, size)
                first = max(start, base)
                for part in LogScan(mapping, base, first, end, columns=("message_id",)):
                    keys = part.column(0)
                    ours = keys.filter(pc.starts_with(keys, prefix))
                    yield from (int(key[_PREFIX_DIGITS:], 16) for key in ours.to_pylist())


def _rows(staging: Path, files: list[str]) -> Iterator[tuple[Any, ...]]:
    """The staged rows, as tuples in the order of the columns."""
    for name in files:
        with pa.memory_map(str(staging / name)) as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                columns = [batch.column(column) for column in COLUMNS]
                yield from zip(
                    *(
                        itertools.repeat(None) if c.null_count == len(c) else c.to_pylist()
                        for c in columns
                    ),
                    strict=False,
                )
