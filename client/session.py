"""A client's connection to a store: its socket, its read-only view of the shared memory, and
requests to the registry.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from ..shm import mail
from ..shm._memory import Mapping
from ..shm.control import SIZE, Control
from ..shm.protocol.answers import AnyAnswer, Error, RegistryRestarted, Welcome
from ..shm.protocol.requests import PROTOCOL, Answered, Hello, Request, answer_of
from ..shm.ring import DATA
from ..store.disk.paths import SOCKET
from ..store.errors import IllegalMessage
from ..store.reading.get_message import Transfer
from ..store.record.ids import LOCALHOST, local_address, month_bounds_ms
from ..store.status import PutMessageStatus
from ..store.topics.topic_table import TopicTable
from .errors import StoreClosed

_REQUEST_S = 10.0
_ANSWERS: Final[msgspec.json.Decoder[AnyAnswer]] = msgspec.json.Decoder(AnyAnswer)


@dataclass(frozen=True)
class StoreConfig:
    """The store's configuration that a client needs, in the form that the compiled modules take.

    Hosts are 8 or 20 bytes; `level` is an AckLevel; sizes are in bytes. `key_epoch_ms` is the start
    of the month, from which unique keys count their time.
    """

    store: str
    store_host: bytes
    born_host: bytes
    born_address: bytes
    max_message_size: int
    level: int
    sync_flush_timeout_ms: int
    append_crc: bool
    producer_spin_us: int
    page_cache_busy_ms: int
    key_epoch_ms: int
    file_size_commit_log: int
    file_size_consume_queue: int
    index_slots: int
    index_entries: int  # of an index file; 0: the store keeps no index
    transfer: Transfer

    @classmethod
    def of(cls, welcome: Welcome) -> StoreConfig:
        """The registry's answer, with this machine's address and the start of the month added."""
        return cls(
            store=welcome.store,
            store_host=bytes.fromhex(welcome.store_host),
            born_host=LOCALHOST.packed(),
            born_address=local_address(),
            max_message_size=welcome.max_message_size,
            level=welcome.level,
            sync_flush_timeout_ms=welcome.sync_flush_timeout_ms,
            append_crc=welcome.append_crc,
            producer_spin_us=welcome.producer_spin_us,
            page_cache_busy_ms=welcome.page_cache_busy_ms,
            key_epoch_ms=month_bounds_ms(int(time.time() * 1000))[0],
            file_size_commit_log=welcome.file_size_commit_log,
            file_size_consume_queue=welcome.file_size_consume_queue,
            index_slots=welcome.index_slots,
            index_entries=welcome.index_entries,
            transfer=Transfer(**msgspec.structs.asdict(welcome.transfer)),
        )


class HungUp(StoreClosed):
    """The registry's end of the connection is closed."""


class Connection:
    """One session with the store in folder `store`, with a ring of `ring_size` bytes (0: no ring).

    Raises StoreClosed when no store runs there, or the user may not connect. Requests may come from
    any thread.
    """

    def __init__(
        self, store: str | os.PathLike[str], ring_size: int = 0, *, timeout_s: float = 10.0
    ) -> None:
        self.path = os.fspath(store)
        self._lock = threading.Lock()
        self._next_id = 0
        welcome, fds = self._begin(ring_size, time.monotonic() + timeout_s)
        self.control = Control(Mapping(fds[0], 0, SIZE, writable=False))
        self.control.check()
        table_size = os.fstat(fds[1]).st_size
        self.table = TopicTable(Mapping(fds[1], 0, table_size, writable=False))
        self.capacity = welcome.capacity
        self.ring: Mapping | None = None
        self.bell = -1
        self.ring_fd = -1
        if ring_size:
            self.ring = Mapping(fds[2], 0, DATA + self.capacity)
            self.ring_fd, self.bell = fds[2], fds[3]
        mail.close_all(fds[:2])
        self.session = welcome.session
        self.notice = self.table.notice(welcome.index)
        self.config = StoreConfig.of(welcome)

    def _begin(self, ring_size: int, deadline: float) -> tuple[Welcome, list[int]]:
        """Connects and opens a session.

        A session's connection is lost when the registry is killed before the supervisor holds its
        descriptors. Then the client connects again.
        """
        while True:
            self._socket = self._connect(max(0.1, deadline - time.monotonic()))
            try:
                return self.ask(Hello(protocol=PROTOCOL, ring_size=ring_size))
            except HungUp:
                self._socket.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            except BaseException:
                self._socket.close()
                raise

    def _connect(self, timeout_s: float) -> socket.socket:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        end.settimeout(timeout_s)
        try:
            folder = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                end.connect(f"/proc/self/fd/{folder}/{SOCKET}")
            finally:
                os.close(folder)
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError) as error:
            end.close()
            what = "no store runs there" if Path(self.path).is_dir() else "there is no such folder"
            raise StoreClosed(
                f"cannot connect to {self.path}: {what}; "
                f"start it with: silo serve --store {self.path}"
            ) from error
        except TimeoutError as error:
            end.close()
            raise StoreClosed(f"{self.path}: the store does not accept connections") from error
        except PermissionError as error:
            end.close()
            raise StoreClosed(
                f"cannot connect to {self.path}: user {os.geteuid()} may not; "
                "join the group of its socket"
            ) from error
        except BaseException:
            end.close()
            raise
        return end

    def request(self, request: Request[Answered]) -> Answered:
        """Asks the registry and returns its answer. Raises IllegalMessage when the registry
        refuses, StoreClosed when the store has died or stopped.
        """
        answer, fds = self.ask(request)
        mail.close_all(fds)
        return answer

    def ask(self, request: Request[Answered]) -> tuple[Answered, list[int]]:
        """As `request`, but also returns the descriptors of the answer, which the caller must
        close.

        A registry that replaces a killed one says so on every connection; then the request is sent
        once more.
        """
        with self._lock:
            self._next_id += 1
            request = msgspec.structs.replace(request, id=self._next_id)
            deadline = time.monotonic() + _REQUEST_S
            self._drop_old_packets()
            self._send(request)
            while True:
                answer, fds = self._receive(deadline)
                if isinstance(answer, RegistryRestarted):
                    self._send(request)
                elif answer.id in (0, request.id):
                    break
                else:
                    mail.close_all(fds)  # the second answer to a request that was sent twice
        if isinstance(answer, Error):
            raise IllegalMessage(PutMessageStatus[answer.status], answer.why)
        assert isinstance(answer, answer_of(type(request))), "the registry answers what was asked"
        return answer, fds

    def _drop_old_packets(self) -> None:
        """Drops packets that came since the last request: news of restarts, and second answers."""
        self._socket.settimeout(0)
        while True:
            try:
                answer, fds = mail.receive(self._socket, _ANSWERS)
            except (OSError, mail.NotAMessage):
                return
            mail.close_all(fds)
            if answer is None:
                return

    def _send(self, request: Request[Answered]) -> None:
        try:
            mail.send(self._socket, request)
        except OSError as error:
            raise HungUp(f"the store at {self.path} is gone ({error})") from error

    def _receive(self, deadline: float) -> tuple[AnyAnswer, list[int]]:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            answer, fds = mail.receive(self._socket, _ANSWERS)
        except TimeoutError as error:
            raise StoreClosed(
                f"the registry of {self.path} has not answered for {_REQUEST_S:g} s"
            ) from error
        except OSError as error:
            raise HungUp(f"the store at {self.path} is gone ({error})") from error
        if answer is None:
            raise HungUp(f"the store at {self.path} closed the connection")
        return answer, fds

    def is_alive(self) -> bool:
        """Whether the store still holds this session: the other end of the socket is open."""
        if self._socket.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLRDHUP)
        return not any(events & (select.POLLRDHUP | select.POLLHUP) for _, events in poll.poll(0))

    def close(self) -> None:
        self._socket.close()
        for fd in (self.ring_fd, self.bell):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self.ring_fd = self.bell = -1
