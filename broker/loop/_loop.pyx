# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`Loop`: one `epoll_wait` for connections, descriptors, timers and calls of other threads."""

from libc.errno cimport EINTR, errno
from libc.stdint cimport uint32_t, uint64_t

from silomq.broker.loop._connection cimport Connection, Limits

import collections
import heapq
import os
import select
import socket
import time

cdef extern from "sys/epoll.h" nogil:
    int EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL
    int EPOLLIN, EPOLLOUT
    ctypedef union epoll_data_t:
        int fd
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_ctl(int epoll, int what, int fd, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int most, int timeout_ms)

cdef enum:
    MOST_EVENTS = 256
    MOST_ACCEPTED = 64          # in one turn: those that wait must not starve the others
# After an `accept` that fails for want of descriptors the loop waits so long (s).
cdef double ACCEPT_PAUSE_S = 0.1
cdef double LONGEST_S = 3600.0


cdef class Timer:
    """A call that is due at a time. `cancel` makes it never happen."""

    cdef readonly double at
    cdef object callback

    def __init__(self, double at, callback):
        self.at = at
        self.callback = callback

    def cancel(self):
        """Drops the call; does nothing if it was made."""
        self.callback = None

    def __lt__(self, Timer other):
        return self.at < other.at


cdef class Loop:
    """Serves connections until `stop`. `handler` gets their frames (`_connection.pyx`), and

    - `began(connection)` for each new one,
    - `cannot_accept(error)` for an OSError of `accept`, after which the loop pauses,
    - `turned()` at the end of each turn, before the answers are sent,
    - `rest()` before it sleeps, when nothing is to be done. It returns how long the loop may sleep
      at most, in seconds.

    Except for `call_from_thread` and `stop`, its methods are for the thread that runs it.
    """

    cdef object handler, epoll
    cdef int epoll_fd
    cdef Limits limits
    cdef dict watched               # fd -> callback
    cdef readonly dict connections  # fd -> Connection
    cdef dict waits                 # fd -> the events that a connection is registered for
    cdef list dirty, timers, listeners
    cdef object ready, posted
    cdef int wake
    cdef bint stopping

    def __init__(self, handler, Limits limits not None):
        self.handler = handler
        self.limits = limits
        self.epoll = select.epoll()
        self.epoll_fd = self.epoll.fileno()
        self.watched, self.connections, self.waits = {}, {}, {}
        self.dirty, self.timers, self.listeners = [], [], []
        self.ready = collections.deque()
        self.posted = collections.deque()
        self.wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.watch(self.wake, self._woken)

    # -- what is waited for

    def listen(self, listener not None):
        """Accepts connections of a listening socket."""
        listener.setblocking(False)
        self.listeners.append(listener)
        self.watch(listener.fileno(), lambda: self._accept(listener))

    def watch(self, int fd, callback not None, uint32_t events=EPOLLIN):
        """Calls `callback()` in each turn in which the descriptor is ready."""
        self._control(EPOLL_CTL_MOD if fd in self.watched else EPOLL_CTL_ADD, fd, events)
        self.watched[fd] = callback

    def unwatch(self, int fd):
        """Ends `watch`. The descriptor must still be open."""
        if self.watched.pop(fd, None) is not None:
            self._control(EPOLL_CTL_DEL, fd, 0)

    def call_later(self, double delay_s, callback):
        """The Timer that calls `callback()` in so many seconds."""
        timer = Timer(time.monotonic() + delay_s, callback)
        heapq.heappush(self.timers, timer)
        return timer

    def call_soon(self, callback):
        """Calls `callback()` in this turn or the next."""
        self.ready.append(callback)

    def call_from_thread(self, callback):
        """As `call_soon`, from any thread. After `close` it does nothing."""
        self.posted.append(callback)
        if self.wake >= 0:
            os.eventfd_write(self.wake, 1)

    def stop(self):
        """Ends `run` after this turn. For any thread, and signal handlers."""
        self.stopping = True
        os.eventfd_write(self.wake, 1)

    def _control(self, int what, int fd, uint32_t events):
        cdef epoll_event event
        event.events = events
        event.data.fd = fd
        if epoll_ctl(self.epoll_fd, what, fd, &event) < 0:
            raise OSError(errno, os.strerror(errno))

    def _woken(self):
        os.eventfd_read(self.wake)
        while self.posted:
            self.ready.append(self.posted.popleft())

    # -- connections

    def _accept(self, listener):
        for _ in range(MOST_ACCEPTED):
            try:
                end, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self.unwatch(listener.fileno())
                self.call_later(ACCEPT_PAUSE_S, lambda: self._accept_again(listener))
                self.handler.cannot_accept(error)
                return
            self._begin(end, address)

    def _accept_again(self, listener):
        if listener.fileno() >= 0:
            self.watch(listener.fileno(), lambda: self._accept(listener))

    def _begin(self, end, address):
        cdef Connection connection
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer, host = self.handler.name(address)
        fd = end.detach()
        connection = Connection(fd, peer, host, self.handler, self.limits, self.dirty)
        self.connections[fd] = connection
        self.waits[fd] = EPOLLIN
        self._control(EPOLL_CTL_ADD, fd, EPOLLIN)
        self.handler.began(connection)
        self._drop_if_closed(connection)

    cdef int _drop_if_closed(self, Connection connection) except -1:
        if connection.closed and self.connections.get(connection.fd) is connection:
            del self.connections[connection.fd], self.waits[connection.fd]
        return 0

    cdef int _look_after(self) except -1:
        """Sends what the turn has brought, and waits for what each connection needs now."""
        cdef Connection connection
        cdef uint32_t wanted
        cdef list dirty
        while self.dirty:
            dirty = self.dirty[:]
            del self.dirty[:]
            for connection in dirty:
                left = connection.flush()
                if connection.closed:
                    self._drop_if_closed(connection)
                    continue
                wanted = (EPOLLIN if connection.wants_reading() else 0) | (EPOLLOUT if left else 0)
                if wanted != <uint32_t>self.waits[connection.fd]:
                    self._control(EPOLL_CTL_MOD, connection.fd, wanted)
                    self.waits[connection.fd] = wanted
        return 0

    def idle(self, double seconds):
        """The connections on which nothing came or went for so long."""
        cdef Connection connection
        cdef double limit = time.monotonic() - seconds
        return [connection for connection in self.connections.values()
                if connection.active_at < limit]

    # -- turns

    def run(self):
        """Serves until `stop`."""
        cdef epoll_event events[MOST_EVENTS]
        cdef int n, i, fd, timeout, epoll = self.epoll_fd
        cdef Connection connection
        while not self.stopping:
            n = epoll_wait(epoll, events, MOST_EVENTS, 0)
            if n == 0:
                timeout = self._timeout_ms(self.handler.rest())
                with nogil:
                    n = epoll_wait(epoll, events, MOST_EVENTS, timeout)
            if n < 0:
                if errno != EINTR:
                    raise OSError(errno, os.strerror(errno))
                n = 0
            for i in range(n):
                fd = events[i].data.fd
                found = self.connections.get(fd)
                if found is not None:
                    # Also after an error or a hang-up: what it is, the call says.
                    connection = <Connection>found
                    if events[i].events & EPOLLOUT:
                        connection.mark()
                    if events[i].events & ~<uint32_t>EPOLLOUT and connection.wants_reading():
                        connection.receive()
                    elif events[i].events & ~<uint32_t>(EPOLLOUT | EPOLLIN):
                        connection.close("")
                    self._drop_if_closed(connection)
                    continue
                callback = self.watched.get(fd)
                if callback is not None:
                    callback()
            self._run_due()
            self.handler.turned()
            self._look_after()

    cdef int _timeout_ms(self, double sleep) except -2:
        """How long to wait for events: until the next timer, and no longer than `sleep` seconds."""
        cdef Timer first
        if self.ready or self.dirty or self.stopping:
            return 0
        while self.timers:
            first = <Timer>self.timers[0]
            if first.callback is not None:
                sleep = min(sleep, max(0.0, first.at - time.monotonic()))
                break
            heapq.heappop(self.timers)
        return <int>(min(sleep, LONGEST_S) * 1000 + 0.999)

    cdef int _run_due(self) except -1:
        cdef Timer timer
        cdef double now
        if self.timers:
            now = time.monotonic()
            while self.timers and (<Timer>self.timers[0]).at <= now:
                timer = heapq.heappop(self.timers)
                if timer.callback is not None:
                    callback, timer.callback = timer.callback, None
                    callback()
        for _ in range(len(self.ready)):
            self.ready.popleft()()
        return 0

    def close(self):
        """Closes all connections, after `run`."""
        for connection in list(self.connections.values()):
            (<Connection>connection).flush()
            connection.close("")
        self.connections.clear()
        self.waits.clear()
        for listener in self.listeners:
            listener.close()
        self.epoll.close()
        # A thread may still call: the number must not be that of another file then.
        wake, self.wake = self.wake, -1
        os.close(wake)
