"""A client's connection to a store: its socket, its read-only view of the shared memory, and
requests to the registry.

A service manager may hold the socket of a store (socket activation). Then a connection waits in the
kernel while the store starts, recovers, or is replaced, and `Connection` waits for its first
answer. The manager ends that wait: it closes the socket of a store that does not start.

A `Connection` closes its descriptors when it is collected, and warns: its client was not closed. It
is in no reference cycle, so it is collected with the last of its users.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import socket
import threading
import time
import warnings
from collections.abc import Callable
from typing import Final

import msgspec

from ..conf.printable import printable
from ..shm import mail, parts
from ..shm._memory import Mapping
from ..shm.bell import SIZE as BELL_SIZE
from ..shm.control import SIZE, Control
from ..shm.protocol.answers import (
    AnyAnswer,
    Error,
    RegistryRestarted,
    Welcome,
)
from ..shm.protocol.request import Answered, Request, answer_of
from ..shm.protocol.requests import PROTOCOL, AskBell, Hello
from ..shm.ring import DATA
from ..store.disk.forks import NO_FORK
from ..store.disk.paths import SOCKET, made_by_a_store
from ..store.errors import (
    IllegalMessage,
    StoreError,
    TooManyOpenFiles,
    limited_by_open_files,
)
from ..store.status import PutMessageStatus
from ..store.topics.topic_table import TopicTable
from . import arguments
from ._bell import Bell
from .connecting import check_version, enter, explained
from .errors import StoreClosed, not_closed
from .forks import abandon_in_child, forked_child
from .reads import ReadCounts
from .store_config import StoreConfig

_REQUEST_S = 10.0
_MOST_ANSWER = 1 << 30  # bytes: a topic of a million queues has 8 MB
#: How long a client waits for a store that its service manager starts: until the manager gives up.
#: A number that poll and sockets take.
FOR_EVER_S: Final = 1e6
#: So long a wait for the start is not mentioned.
_TELL_S: Final = 2.0
#: So much of a path is in an error's message.
_SHOWN = 300
_log = logging.getLogger("silomq")
_ANSWERS: Final[msgspec.json.Decoder[AnyAnswer]] = msgspec.json.Decoder(AnyAnswer)


class HungUp(StoreClosed):
    """The registry's end of the connection is closed."""


class Connection:
    """One session with the store in folder `store`, with a ring of `ring_size` bytes (0: no ring).
    `client` is the kind of client that has it, for messages. The store must take the connection
    within `timeout_s`, and answer within `start_s` if a service manager starts it.

    Raises StoreClosed when no store runs there, or the user may not connect, and TooManyOpenFiles;
    IllegalArgument and IllegalType for a `store` that is no path. Requests may come from any
    thread.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        ring_size: int = 0,
        *,
        client: str = "connection",
        timeout_s: float = 10.0,
        start_s: float = FOR_EVER_S,
    ) -> None:
        self._socket: socket.socket | None = None  # first, because `__del__` looks at it
        self.path = arguments.store(store)
        self.shown = printable(self.path[:_SHOWN])
        self.client = client
        #: Whether this process is a forked child of the one that opened the connection.
        self.forked = False
        self._others: list[int] = []  # further descriptors: of the ring, and of append's bell
        self._in_use: list[int] = []  # those of a call under way, which closes them
        self._lock = threading.RLock()
        self._answers = parts.Joiner(_ANSWERS, _MOST_ANSWER)
        self._next_id = 0
        self._patience_s = _REQUEST_S
        self._tells = False  # whether to mention that it waits
        self.bell = -1
        self._own_bell: Bell | None = None
        abandon_in_child(self)
        welcome, fds = self._begin(ring_size, timeout_s, start_s)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            undo.callback(self.drop, fds)
            self.control = Control(Mapping(fds[0], 0, SIZE, writable=False))
            check_version(self.control, self.shown)
            table_size = os.fstat(fds[1]).st_size
            self.table = TopicTable(Mapping(fds[1], 0, table_size, writable=False))
            self.capacity = welcome.capacity
            self.ring = Mapping(fds[2], 0, DATA + self.capacity) if ring_size else None
            self.bell = fds[3] if ring_size else -1
            undo.pop_all()
        self.drop(fds[:2])
        self._others, self._in_use = self._in_use, []
        self.session = welcome.session
        #: What this session reads, counted for the store's figures.
        self.reads = ReadCounts(self)
        self.notice = self.table.notice(welcome.index)
        with NO_FORK:  # to know its own address it opens a socket for a moment
            self.config = StoreConfig.of(welcome)
        self._patience_s = max(_REQUEST_S, self.config.patience_s)

    def _begin(self, ring_size: int, timeout_s: float, start_s: float) -> tuple[Welcome, list[int]]:
        """Connects and opens a session.

        A session's connection is lost when the registry is killed before the supervisor holds its
        descriptors, or when the store stops. Then the client connects again.
        """
        began = time.monotonic()
        deadline = began + timeout_s
        while True:
            try:
                end = self._connect(max(0.1, deadline - time.monotonic()))
                if not made_by_a_store(end.getpeername()):
                    deadline = began + start_s
                    self._patience_s = max(0.1, deadline - time.monotonic())
                    self._tells = True
                return self.ask(Hello(protocol=PROTOCOL, ring_size=ring_size))
            except HungUp:
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            except BaseException:
                self.close()
                raise

    def _connect(self, timeout_s: float) -> socket.socket:
        """Connects `_socket`. Raises StoreClosed, TooManyOpenFiles."""
        with limited_by_open_files(), NO_FORK:
            end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
            self._socket = end
        end.settimeout(timeout_s)
        with explained(self.path, self.shown, timeout_s):
            with limited_by_open_files(), NO_FORK:
                folder = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                self._in_use.append(folder)
            try:
                enter(end, f"/proc/self/fd/{folder}/{SOCKET}", timeout_s)
            finally:
                self.drop([folder])
        return end

    def request(self, request: Request[Answered]) -> Answered:
        """Asks the registry and returns its answer. Raises IllegalMessage when the registry
        refuses, StoreClosed when the store has died or stopped.
        """
        answer, fds = self.ask(request)
        self.drop(fds)
        return answer

    def ask(self, request: Request[Answered]) -> tuple[Answered, list[int]]:
        """As `request`, but also returns the descriptors of the answer, which the caller must
        `drop`.

        A registry that replaces a killed one says so on every connection; then the request is sent
        once more.
        """
        self.check_process()
        with self._lock:
            end = self._socket
            if end is None:
                raise HungUp(f"this {self.client} of the store at {self.shown} is closed")
            self._next_id += 1
            request = msgspec.structs.replace(request, id=self._next_id)
            deadline = time.monotonic() + self._patience_s
            packets = self._packets(request)
            self._drop_old_packets(end)
            self._send(end, packets, deadline)
            while True:
                answer, fds = self._receive(end, deadline)
                if isinstance(answer, RegistryRestarted):
                    self._send(end, packets, deadline)
                elif answer.id in (0, request.id):
                    break
                else:
                    self.drop(fds)  # the second answer to a request that was sent twice
        if isinstance(answer, Error):
            raise IllegalMessage(PutMessageStatus[answer.status], printable(answer.why))
        assert isinstance(answer, answer_of(type(request))), "the registry answers what was asked"
        return answer, fds

    def _drop_old_packets(self, end: socket.socket) -> None:
        """Drops packets that came since the last request: news of restarts, and second answers."""
        end.settimeout(0)
        while True:
            try:
                with NO_FORK:
                    answer, fds = mail.receive(end, self._answers)
                    mail.close_all(fds)
            except (OSError, mail.NotAMessage):
                return
            except parts.Incomplete:
                continue
            if answer is None:
                return

    def _packets(self, request: Request[Answered]) -> list[bytes]:
        """The request's packets. Raises IllegalMessage for values that no request can have."""
        try:
            return parts.packets(request, parts.MAX_REQUEST)
        except (ValueError, OverflowError, TypeError) as error:
            raise IllegalMessage(
                PutMessageStatus.MESSAGE_ILLEGAL, f"this cannot be asked: {error}"
            ) from error

    def _send(self, end: socket.socket, packets: list[bytes], deadline: float) -> None:
        try:
            for packet in packets:
                end.settimeout(max(0.001, deadline - time.monotonic()))
                mail.send_packet(end, packet)
        except TimeoutError as error:
            raise self._silent() from error
        except OSError as error:
            raise HungUp(f"the store at {self.shown} is gone ({error})") from error

    def _silent(self) -> StoreClosed:
        return StoreClosed(
            f"the registry of {self.shown} has not answered for {self._patience_s:.3g} s"
        )

    def _receive(self, end: socket.socket, deadline: float) -> tuple[AnyAnswer, list[int]]:
        """The next answer. Raises StoreClosed, TooManyOpenFiles, and StoreError for a packet that
        is no answer.
        """
        while True:
            try:
                self._await_packet(end, deadline)
                with NO_FORK:
                    answer, fds = mail.receive(end, self._answers)
                    self._in_use += fds
                break
            except (parts.Incomplete, BlockingIOError):
                continue
            except TimeoutError as error:
                raise self._silent() from error
            except OSError as error:
                raise HungUp(f"the store at {self.shown} is gone ({error})") from error
            except mail.DescriptorsLost as error:
                raise TooManyOpenFiles(errno.EMFILE, os.strerror(errno.EMFILE)) from error
            except mail.NotAMessage as error:
                raise StoreError(f"the registry of {self.shown} answers: {error}") from error
        if answer is None:
            raise HungUp(f"the store at {self.shown} closed the connection")
        return answer, fds

    def _await_packet(self, end: socket.socket, deadline: float) -> None:
        """Waits for a packet. Raises TimeoutError."""
        tells, self._tells = self._tells, False
        told_at = time.monotonic() + _TELL_S
        if tells and told_at < deadline:
            try:
                mail.await_packet(end, told_at)
            except TimeoutError:
                _log.warning(
                    "%s: waiting for the store to start; its service manager holds the socket",
                    self.shown,
                )
            else:
                return
        mail.await_packet(end, deadline)

    def own_bell(self) -> Bell:
        """The session's own bell (`shm/bell.py`), which the first call asks for. Raises as
        `request`; IllegalMessage when the store has no descriptors for it.
        """
        with self._lock:
            if self._own_bell is None:
                _, (page, end) = self.ask(AskBell())
                try:
                    memory = Mapping(page, 0, BELL_SIZE)
                    with NO_FORK:
                        self._own_bell = Bell(memory, end)
                        self._in_use.remove(end)
                finally:
                    self.drop([page, end] if self._own_bell is None else [page])
            return self._own_bell

    def drop(self, fds: list[int]) -> None:
        """Closes descriptors that `ask` returned."""
        with NO_FORK:
            self._in_use = [fd for fd in self._in_use if fd not in fds]
            mail.close_all(fds)

    def is_alive(self) -> bool:
        """Whether the store still holds this session: the other end of the socket is open."""
        end = self._socket
        if end is None or end.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(end, select.POLLRDHUP)
        return not any(events & (select.POLLRDHUP | select.POLLHUP) for _, events in poll.poll(0))

    def check_process(self) -> None:
        """Raises ForkedChild in a forked child of the process that opened the connection."""
        if self.forked:
            raise forked_child(self.client, self.shown)

    def close(self) -> None:
        """Ends the session, also if another process holds a copy of the socket. May be called
        again.
        """
        if self.forked:
            return
        end = self._socket
        if end is not None:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # ends a request of another thread
        if self._own_bell is not None:
            self._own_bell.hang_up()  # wakes who waits for it
        with self._lock:  # no thread may use a number that another file gets next
            self._close_descriptors()

    def abandon(self) -> None:
        """Closes the copies that a forked child has; `client/forks.py` says why. The session, which
        is the parent's, does not end.
        """
        self.forked = True
        self.drop(self._in_use)
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        with NO_FORK:
            end, self._socket = self._socket, None
            fds, self._others = self._others, []
            self.bell = -1
            if self._own_bell is not None:
                self._own_bell.close()
            if end is not None:
                end.close()
            mail.close_all(fds)

    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if self._socket is not None:
            self._close_descriptors()
            _warn(not_closed(self.client, self.shown), source=self)
