# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A load generator that is no JVM: pipelined requests over several connections at C speed.

A request is a copy of a frame in which some digits are patched. An answer is looked at only as far
as is needed to know that it is right.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memmove

import os
from array import array

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)
    int64_t silo_monotonic_ns()

cdef extern from "string.h" nogil:
    void *memmem(const void *where, size_t length, const void *what, size_t size)

cdef extern from "store/record/record.h" nogil:
    int RECORD_TOTAL_SIZE, RECORD_QUEUE_ID, RECORD_QUEUE_OFFSET, RECORD_FIXED

cdef extern from "sys/socket.h" nogil:
    int MSG_DONTWAIT, MSG_NOSIGNAL
    ssize_t recv(int fd, void *p, size_t n, int flags)
    ssize_t send(int fd, const void *p, size_t n, int flags)

cdef extern from "sys/epoll.h" nogil:
    int EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT
    ctypedef union epoll_data_t:
        uint32_t u32
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_ctl(int poll, int operation, int fd, epoll_event *event)
    int epoll_wait(int poll, epoll_event *events, int most, int timeout_ms)

cdef enum:
    EVENTS = 64
    RECEIVED = 1 << 20          # of one connection; no answer is longer
    MOST_HEADER = 0xFFFFFF
    #: Opaque numbers have nine digits, so that each fits into the place of another.
    FIRST_OPAQUE = 100000000
    OPAQUE_DIGITS = 9
    OFFSET_DIGITS = 10
    KEY_DIGITS = 12
    FAILED = -1
    ZERO = 0x30                 # the digits in ASCII
    NINE = 0x39

cdef const char *HEX = b"0123456789ABCDEF"
cdef const char *CODE = b'"code":'
cdef const char *OPAQUE = b'"opaque":'


cdef void put_digits(uint8_t *p, int count, uint32_t base, uint64_t value) noexcept nogil:
    """Writes the last digits of a number."""
    cdef int i
    for i in range(count - 1, -1, -1):
        p[i] = HEX[value % base]
        value //= base


cdef int64_t number(const uint8_t *p, const uint8_t *end, const char *name,
                    size_t size) noexcept nogil:
    """The number behind a name in a JSON header; FAILED if there is none."""
    cdef const uint8_t *at = <const uint8_t *>memmem(p, end - p, name, size)
    cdef int64_t found = 0
    if at == NULL or at + size >= end or not ZERO <= at[size] <= NINE:
        return FAILED
    at += size
    while at < end and ZERO <= at[0] <= NINE:
        found = 10 * found + at[0] - ZERO
        at += 1
    return found


cdef class Requests:
    """Requests that differ in the digits at some places of `frame`. The opaque number is at
    `opaque`, and one digit for the queue at `queue`: there are `queues` of them, taken in turn.

    `failed` counts wrong answers; `code` is the response code of the last one, -1 without one.
    """

    cdef bytes kept
    cdef const uint8_t *frame
    cdef readonly uint32_t size, queues
    cdef uint32_t opaque_at, queue_at
    cdef readonly int64_t asked, answered, failed, messages, code
    #: Requests that were answered in part, and are to be asked again.
    cdef uint32_t[::1] unfinished
    cdef uint32_t left

    def __init__(self, bytes frame not None, uint32_t opaque, uint32_t queue, uint32_t queues):
        assert opaque + OPAQUE_DIGITS <= len(frame) and queue < len(frame) and 0 < queues <= 10
        self.kept = frame
        self.frame = <const uint8_t *>PyBytes_AS_STRING(frame)
        self.size = len(frame)
        self.opaque_at, self.queue_at, self.queues = opaque, queue, queues
        self.code = FAILED

    cdef void put(self, uint8_t *out) noexcept nogil:
        """Writes the next request."""
        cdef int64_t which = self.asked
        if self.left:
            self.left -= 1
            which = self.unfinished[self.left]
        else:
            self.asked += 1
        memcpy(out, self.frame, self.size)
        put_digits(out + self.opaque_at, OPAQUE_DIGITS, 10, FIRST_OPAQUE + which)
        out[self.queue_at] = ZERO + which % self.queues
        self.patch(out, which)

    cdef void patch(self, uint8_t *out, int64_t which) noexcept nogil:
        """Writes what else differs in a request, by its number."""

    cdef void take(self, const uint8_t *p, uint32_t length) noexcept nogil:
        """Looks at an answer: a frame of `length` bytes behind its first word."""
        cdef uint32_t header = silo_be32(p) & MOST_HEADER
        cdef const uint8_t *end = p + 4 + header
        cdef int64_t code = FAILED, found = FAILED
        self.answered += 1
        if silo_be32(p) >> 24 == 0 and 4 + header <= length:
            code = number(p + 4, end, CODE, 7)
            if code == 0:
                found = self.messages_in(p + 4, end, p + length)
        if found == FAILED:
            self.failed += 1
            self.code = code
        else:
            self.messages += found

    cdef int64_t messages_in(self, const uint8_t *header, const uint8_t *body,
                             const uint8_t *end) noexcept nogil:
        """How many messages an answer without an error stands for; FAILED if it is wrong."""
        return FAILED


cdef class Sends(Requests):
    """Sends of one message each. At `key` the digits of its UNIQ_KEY are patched."""

    cdef uint32_t key_at

    def __init__(self, bytes frame not None, uint32_t opaque, uint32_t queue, uint32_t queues,
                 uint32_t key):
        super().__init__(frame, opaque, queue, queues)
        assert key + KEY_DIGITS <= len(frame)
        self.key_at = key

    cdef void patch(self, uint8_t *out, int64_t which) noexcept nogil:
        put_digits(out + self.key_at, KEY_DIGITS, 16, which)

    cdef int64_t messages_in(self, const uint8_t *header, const uint8_t *body,
                             const uint8_t *end) noexcept nogil:
        return 1


cdef class Pulls(Requests):
    """Pulls of `each` messages: the queues in turn, and in each from its beginning on. The digits
    of the queue's offset are at `offset`.

    An answer is right if it brings messages of one of the pulls that have not come yet, and no
    others. A pull that brings fewer than asked for goes on behind them, as a client's does.
    """

    cdef uint32_t offset_at, each
    cdef uint8_t[::1] came

    def __init__(self, bytes frame not None, uint32_t opaque, uint32_t queue, uint32_t queues,
                 uint32_t offset, uint32_t each, uint32_t count):
        super().__init__(frame, opaque, queue, queues)
        assert offset + OFFSET_DIGITS <= len(frame)
        assert each < 256
        self.offset_at, self.each = offset, each
        self.came = bytearray(count)
        self.unfinished = array("I", bytes(4 * count))

    cdef uint64_t begin(self, int64_t which) noexcept nogil:
        """The queue offset of the first message that has not come yet."""
        return which // self.queues * self.each + self.came[which]

    cdef void patch(self, uint8_t *out, int64_t which) noexcept nogil:
        put_digits(out + self.offset_at, OFFSET_DIGITS, 10, self.begin(which))

    cdef int64_t messages_in(self, const uint8_t *header, const uint8_t *body,
                             const uint8_t *end) noexcept nogil:
        cdef int64_t which = number(header, body, OPAQUE, 9) - FIRST_OPAQUE
        cdef uint64_t begin
        cdef uint32_t found = 0, size, missing
        if not 0 <= which < self.came.shape[0] or self.came[which] == self.each:
            return FAILED
        begin = self.begin(which)
        missing = self.each - self.came[which]
        while end - body >= RECORD_FIXED:
            size = silo_be32(body + RECORD_TOTAL_SIZE)
            if (size > end - body or size < RECORD_FIXED
                    or silo_be32(body + RECORD_QUEUE_ID) != which % self.queues
                    or silo_be64(body + RECORD_QUEUE_OFFSET) != begin + found):
                return FAILED
            body += size
            found += 1
        if body != end or not 0 < found <= self.each:
            return FAILED
        if found < missing:
            self.unfinished[self.left] = which
            self.left += 1
            self.answered -= 1
        found = min(found, missing)
        self.came[which] += found
        return found


cdef struct Peer:
    int fd
    uint8_t *out                # requests that are to be sent
    size_t out_at, out_end
    uint8_t *received           # answers that have not come whole
    size_t received_end
    uint32_t under_way
    bint is_full                # the socket takes no more for now


cdef class Peers:
    """The connections of a run, and what waits for them all."""

    cdef Peer *all
    cdef uint32_t count
    cdef int poll
    cdef object poll_owner

    def __cinit__(self, fds, size_t out_size):
        import select

        cdef uint32_t i
        cdef epoll_event event
        self.poll_owner = select.epoll()
        self.poll = self.poll_owner.fileno()
        self.all = <Peer *>calloc(len(fds), sizeof(Peer))
        if self.all == NULL:
            raise MemoryError
        self.count = len(fds)
        for i in range(self.count):
            self.all[i].fd = fds[i]
            self.all[i].out = <uint8_t *>malloc(out_size)
            self.all[i].received = <uint8_t *>malloc(RECEIVED)
            if self.all[i].out == NULL or self.all[i].received == NULL:
                raise MemoryError
            event.events = EPOLLIN
            event.data.u32 = i
            if epoll_ctl(self.poll, EPOLL_CTL_ADD, self.all[i].fd, &event) < 0:
                raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.count):
            free(self.all[i].out)
            free(self.all[i].received)
        free(self.all)

    cdef int flush(self, uint32_t which) noexcept nogil:
        """Sends what the socket takes. 0, or an errno."""
        cdef Peer *peer = &self.all[which]
        cdef bint is_full = False
        cdef ssize_t n
        cdef epoll_event event
        while peer.out_at < peer.out_end:
            n = send(peer.fd, peer.out + peer.out_at, peer.out_end - peer.out_at,
                     MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0:
                if errno != EAGAIN:
                    return errno
                is_full = True
                break
            peer.out_at += n
        if is_full != peer.is_full:
            peer.is_full = is_full
            event.events = EPOLLIN | EPOLLOUT if is_full else EPOLLIN
            event.data.u32 = which
            epoll_ctl(self.poll, EPOLL_CTL_MOD, peer.fd, &event)
        return 0

    cdef int ask(self, uint32_t which, Requests what, uint32_t window,
                 int64_t count) noexcept nogil:
        """Fills the window with requests. 0, or an errno."""
        cdef Peer *peer = &self.all[which]
        if peer.out_at == peer.out_end:
            peer.out_at = peer.out_end = 0
            while peer.under_way < window and (what.left or what.asked < count):
                what.put(peer.out + peer.out_end)
                peer.out_end += what.size
                peer.under_way += 1
        return self.flush(which)

    cdef int receive(self, uint32_t which, Requests what) noexcept nogil:
        """Takes in the answers that have come. 0, or an errno, or FAILED at the end."""
        cdef Peer *peer = &self.all[which]
        cdef const uint8_t *at = peer.received
        cdef const uint8_t *end
        cdef uint32_t length
        cdef ssize_t n = recv(peer.fd, peer.received + peer.received_end,
                              RECEIVED - peer.received_end, MSG_DONTWAIT)
        if n == 0:
            return FAILED
        if n < 0:
            return 0 if errno == EAGAIN else errno
        end = at + peer.received_end + n
        while end - at >= 8:
            length = silo_be32(at)
            if length < 4 or length > RECEIVED - 4:
                return FAILED
            if length > end - at - 4:
                break
            what.take(at + 4, length)
            peer.under_way -= 1
            at += 4 + length
        peer.received_end = end - at
        memmove(peer.received, at, peer.received_end)
        return 0


def run(Requests what not None, fds, uint32_t window, int64_t count, int patience_ms):
    """Sends requests until `count` were made since `what` was, each connection `window` ahead of
    its answers, and waits for all answers. Returns seconds.

    Raises TimeoutError if nothing comes for `patience_ms`, OSError, ConnectionError.
    """
    cdef Peers peers = Peers(fds, <size_t>window * what.size)
    cdef epoll_event events[EVENTS]
    cdef int64_t start = silo_monotonic_ns()
    cdef uint32_t i
    cdef int ready = 0, problem = 0, k
    with nogil:
        for i in range(peers.count):
            problem = problem or peers.ask(i, what, window, count)
        while what.answered < count and not problem:
            ready = epoll_wait(peers.poll, events, EVENTS, patience_ms)
            if ready < 0 and errno == EINTR:
                with gil:
                    PyErr_CheckSignals()
                continue
            if ready <= 0:
                break
            for k in range(ready):
                if events[k].events != <uint32_t>EPOLLOUT:
                    problem = problem or peers.receive(events[k].data.u32, what)
                problem = problem or peers.ask(events[k].data.u32, what, window, count)
    if problem > 0:
        raise OSError(problem, os.strerror(problem))
    if problem < 0:
        raise ConnectionError("the broker has closed a connection, or sent no frame")
    if what.answered < count:
        raise TimeoutError(f"{what.answered} of {count} answers, and none for {patience_ms} ms")
    return (silo_monotonic_ns() - start) / 1e9


def lone(Requests what not None, int fd, uint32_t count):
    """Makes `count` requests, each when the one before is answered. `fd` is a blocking socket that
    has a timeout of the kernel's. Returns nanoseconds of each. Raises OSError.
    """
    cdef uint8_t *frame = <uint8_t *>malloc(what.size + RECEIVED)
    cdef uint8_t *answer = frame + what.size
    times = array("q", bytes(8 * count))
    cdef int64_t[::1] taken = times
    cdef int64_t start
    cdef uint32_t i
    cdef ssize_t n = 1, got
    if frame == NULL:
        raise MemoryError
    with nogil:
        for i in range(count):
            start = silo_monotonic_ns()
            what.put(frame)
            n = send(fd, frame, what.size, MSG_NOSIGNAL)
            got = 0
            while n > 0 and (got < 4 or got < 4 + <ssize_t>silo_be32(answer)):
                n = recv(fd, answer + got, RECEIVED - got, 0)
                got += n
            if n <= 0:
                break
            what.take(answer + 4, got - 4)
            taken[i] = silo_monotonic_ns() - start
    free(frame)
    if n < 0:
        raise OSError(errno, os.strerror(errno))
    if n == 0:
        raise ConnectionError("the broker has closed the connection")
    return times
