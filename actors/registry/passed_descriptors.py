"""Descriptors that clients pass to the registry: it takes none.

A client can send any descriptor along with a packet, and the last close of a descriptor may block.
For a TCP socket with SO_LINGER it blocks as long as its sender has asked for, and the registry
would stand still. The kernel closes such a descriptor in the process that receives the packet, or
that closes the connection with the packet in it. A control buffer of size 0 changes nothing about
that (measured on Linux 6.18: 2 s for a linger of 2 s, in each of these ways).

- From Linux 6.16 on the socket refuses descriptors (SO_PASSRIGHTS off): `sendmsg` of a client fails
  with EPERM. Connections inherit this from the listening socket.
- Before, the registry looks at each packet (MSG_PEEK) before it receives it. A packet that brings
  descriptors is reported as truncated, and none is taken. Then a thread, the only one, closes the
  connection. A signal ends the wait for a socket that lingers, so the registry interrupts its
  thread every 2 ms while that is at work. While too many connections wait for the thread, none is
  accepted.

The supervisor holds a duplicate of a session's connection, and must not wait either. So the thread
first receives what such a connection holds, and the supervisor closes its duplicate afterwards. A
connection without a session is closed as it is: one signal ends the waits for all that it holds.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeAlias

SO_PASSRIGHTS: Final = 83
#: An empty packet cannot be told from the end of a connection: more of them than a socket holds.
_MOST_EMPTY: Final = 1024
_INTERRUPT: Final = signal.SIGUSR2
_INTERRUPT_S: Final = 0.002
#: A connection, and what is to be done once it is closed; None for one without a duplicate.
_Job: TypeAlias = tuple[socket.socket, Callable[[], None] | None]


def refuse(listener: socket.socket) -> None:
    """Makes the kernel refuse descriptors from the clients of a listening socket, if it can."""
    with contextlib.suppress(OSError):  # ENOPROTOOPT before Linux 6.16
        listener.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)


def are_refused(end: socket.socket) -> bool:
    """Whether the kernel refuses descriptors that are sent to this socket."""
    try:
        return end.getsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS) == 0
    except OSError:
        return False


def come_along(connection: socket.socket) -> bool:
    """Whether the next packet brings descriptors. Does not receive it. Raises BlockingIOError when
    there is no packet, and OSError as recvmsg.
    """
    flags = connection.recvmsg(1, 0, socket.MSG_PEEK)[2]
    return bool(flags & socket.MSG_CTRUNC)


class Closer:
    """Closes connections that may still hold packets. `most` is how many may wait for the thread
    before `is_full` says so.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: deque[_Job] = deque()  # the thread works on the first, and removes it
        self._ready = threading.Semaphore(0)
        self._done: deque[_Job] = deque()
        self._thread: threading.Thread | None = None

    def close(self, connection: socket.socket, then: Callable[[], None] | None = None) -> None:
        """Closes a connection, then calls `then`, which closes the supervisor's duplicate if there
        is one. If descriptors are among the packets, later calls of `tick` do that.
        """
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # the client can send no more
        if _discard(connection, stop_at_descriptors=True):
            connection.close()
            if then is not None:
                then()
        else:
            self._jobs.append((connection, then))
            self._ready.release()

    def tick(self) -> None:
        """Starts the thread if it is wanted, interrupts its waits, and finishes what it has closed.
        To be called in the main thread. A thread that cannot be started now is started later.
        """
        if self._jobs and self._thread is None:
            thread = threading.Thread(target=self._work, daemon=True)
            with contextlib.suppress(RuntimeError):  # no room for a thread
                thread.start()
                self._thread = thread
                signal.signal(_INTERRUPT, _nothing)
        if self._jobs and self._thread is not None and self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, _INTERRUPT)
        while self._done:
            _, then = self._done.popleft()
            if then is not None:
                then()

    @property
    def is_full(self) -> bool:
        """Whether so many connections wait that no more should be accepted."""
        return len(self._jobs) >= self._most

    def patience(self) -> float:
        """Seconds until `tick` is due; infinite if it is not."""
        return _INTERRUPT_S if self._jobs or self._done else float("inf")

    def _work(self) -> None:
        while True:
            self._ready.acquire()
            connection, then = self._jobs[0]
            if then is not None:
                _discard(connection, stop_at_descriptors=False)
            connection.close()
            self._done.append(self._jobs[0])
            self._jobs.popleft()


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Handles a signal that is to interrupt a system call."""


def _discard(connection: socket.socket, *, stop_at_descriptors: bool) -> bool:
    """Receives all packets. False if it stopped at one that brings descriptors."""
    empty = 0
    while empty < _MOST_EMPTY:
        try:
            if stop_at_descriptors and come_along(connection):
                return False
            empty = 0 if connection.recvmsg(1, 0)[0] else empty + 1
        except ConnectionResetError:  # said once, before the packets of a client that is gone
            empty += 1
        except OSError:
            break
    return True
