# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`Connection`: the bytes of one peer, cut into frames, and the answers that wait to be sent.

The layout of a frame is that of `broker/wire/command.py`. A connection calls its handler:

- `frame(connection, frame)` for each whole frame, bytes without its first word;
- `ended(connection, why)` once, when the connection is closed. `why` is "" when the peer closed it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

import time

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "sys/socket.h" nogil:
    int MSG_DONTWAIT, MSG_NOSIGNAL
    ssize_t recv(int fd, void *p, size_t n, int flags)
    cdef struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
        void *msg_name
        unsigned int msg_namelen
        void *msg_control
        size_t msg_controllen
        int msg_flags
    ssize_t sendmsg(int fd, const msghdr *message, int flags)

cdef extern from "unistd.h" nogil:
    int close(int fd)

cdef enum:
    SCRATCH = 262144            # what one call receives
    MOST_PARTS = 64             # of answers that one call sends
    LEAST_ROOM = 512            # for an unfinished frame
    WORD = 4
    HEADER_BYTES = 0xFFFFFF
    # The longest header: it has a message's properties, at most 32 KiB, which JSON makes longer.
    MOST_HEADER = 262144
    HANDSHAKE = 0x16            # the first byte of TLS


cdef class FastPath:
    """Serves the most frequent frames without Python. `serve` gets a frame without its first word,
    and returns False for one that the handler must serve.
    """

    cdef bint serve(self, Connection connection, const uint8_t *frame, Py_ssize_t length) except -1:
        return False


cdef class Limits:
    """What one connection may take, and all together; shared by the connections of a loop.

    `frame` is the longest frame with its first word, `unsent` so many bytes of answers that a peer
    is read no further, `held` the bytes of unfinished frames of all connections. `secure` makes a
    connection's layer of TLS (`tls.py`), None without TLS. `plain` allows connections without it.
    `received` and `sent` count the bytes of all connections.
    """

    def __init__(self, *, Py_ssize_t frame, Py_ssize_t unsent, Py_ssize_t held, secure=None,
                 bint plain=True):
        self.frame = frame
        self.unsent = unsent
        self.held = held
        self.secure = secure
        self.plain = plain

    def __cinit__(self):
        self.scratch = <uint8_t *>malloc(SCRATCH)
        if self.scratch == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.scratch)


cdef class Connection:
    """One peer, at `peer` (HOST:PORT). `host` is its address as records have it: 8 or 20 bytes.

    `state` is the handler's own. `active_at` is the monotonic time (s) of the last byte that came
    or went, `unsent` the bytes of answers that the peer has not read.
    """

    def __init__(self, int fd, str peer, bytes host, handler, Limits limits not None, list dirty):
        self.fd = fd
        self.peer = peer
        self.host = host
        self.handler = handler
        self.limits = limits
        self.dirty = dirty
        self.queue = []
        self.fresh = True
        self.active_at = time.monotonic()

    def __dealloc__(self):
        free(self.data)

    # -- receiving

    cdef int receive(self) except -1:
        """Receives once, and hands on the whole frames that have come."""
        cdef ssize_t n
        cdef uint8_t *place = self.limits.scratch
        n = recv(self.fd, place, SCRATCH, MSG_DONTWAIT)
        if n < 0:
            if errno != EAGAIN and errno != EINTR:
                self.close("")
            return 0
        if n == 0:
            self.close("")
            return 0
        self.active_at = time.monotonic()
        self.limits.received += n
        if self.fresh:
            self.begin(place[0])
            if self.closed:
                return 0
        if self.tls is None:
            return self.take(place, n)
        try:
            plain = self.tls.receive(PyBytes_FromStringAndSize(<char *>place, n))
            self.push(self.tls.to_send())
        except OSError as error:
            self.close(f"TLS: {error}")
            return 0
        if plain:
            self.take(<const uint8_t *>PyBytes_AS_STRING(plain), PyBytes_GET_SIZE(plain))
        return 0

    def begin(self, first):
        """Decides by the first byte whether the peer speaks TLS."""
        self.fresh = False
        if first == HANDSHAKE and self.limits.secure is not None:
            self.tls = self.limits.secure()
        elif first == HANDSHAKE:
            self.close("the peer speaks TLS, and no certificate is configured")
        elif not self.limits.plain:
            self.close("the peer does not speak TLS, which tls_server_mode demands")

    cdef int take(self, const uint8_t *p, Py_ssize_t n) except -1:
        """Hands on the frames in what has come, and keeps the rest."""
        cdef Py_ssize_t used
        if self.end == self.start and self.wants_reading():
            used = self.cut(p, n)
            if not self.closed and used < n:
                self.keep(p + used, n - used)
            return 0
        self.keep(p, n)
        return self.go_on()

    cdef int go_on(self) except -1:
        """Hands on the whole frames among what was kept."""
        cdef uint8_t *p
        cdef Py_ssize_t n, used
        if self.is_cutting or self.end == self.start or not self.wants_reading():
            return 0
        # A handler may close the connection, and may not touch what is cut meanwhile.
        p, n = self.data + self.start, self.end - self.start
        used = self.cut(p, n)
        if self.closed:
            return 0
        self.start += used
        if self.start == self.end:
            self.forget()
        return 0

    cdef Py_ssize_t cut(self, const uint8_t *p, Py_ssize_t n) except -1:
        """Hands on the whole frames in `n` bytes until the peer is held back. Returns how many
        bytes these frames have. Closes the connection for bytes that are no frame."""
        cdef Py_ssize_t at = 0, length
        cdef uint32_t mark
        cdef FastPath fast = self.limits.fast
        self.is_cutting = True
        try:
            while n - at >= WORD and self.wants_reading():
                length = silo_be32(p + at)
                if length < WORD or length > self.limits.frame - WORD:
                    self.close(f"a frame of {length} bytes: {WORD} to {self.limits.frame - WORD}")
                    return at
                if n - at >= 2 * WORD:
                    mark = silo_be32(p + at + WORD)
                    if mark >> 24 > 1 or <Py_ssize_t>(mark & HEADER_BYTES) > length - WORD:
                        self.close(f"a header of type {mark >> 24} and {mark & HEADER_BYTES} bytes "
                                   f"in a frame of {length}")
                        return at
                    if mark & HEADER_BYTES > MOST_HEADER:
                        self.close(f"a header of more than {MOST_HEADER >> 10} KiB")
                        return at
                if n - at < WORD + length:
                    break
                if fast is None or not fast.serve(self, p + at + WORD, length):
                    frame = PyBytes_FromStringAndSize(<const char *>p + at + WORD, length)
                    self.handler.frame(self, frame)
                at += WORD + length
                if self.closed:
                    return at
                if self.unsent > self.limits.unsent:
                    self.choked = True
        finally:
            self.is_cutting = False
        return at

    cdef int keep(self, const uint8_t *p, Py_ssize_t n) except -1:
        """Copies what is not a whole frame yet."""
        self.make_room(n)
        if self.closed:
            return 0
        memcpy(self.data + self.end, p, n)
        self.end += n
        return 0

    cdef int make_room(self, Py_ssize_t more) except -1:
        """Makes room for `more` bytes. It grows as bytes arrive, whatever a frame announces."""
        cdef Py_ssize_t has = self.end - self.start, wanted
        cdef uint8_t *p
        if self.room - self.end >= more:
            return 0
        if self.start:
            memmove(self.data, self.data + self.start, has)
            self.start, self.end = 0, has
        if self.room - has >= more:
            return 0
        wanted = max(LEAST_ROOM, has + more, min(2 * self.room, has + more + SCRATCH))
        if self.limits.holds + wanted - self.room > self.limits.held:
            self.close(f"more than {self.limits.held >> 20} MiB of unfinished requests")
            return 0
        p = <uint8_t *>realloc(self.data, wanted)
        if p == NULL:
            raise MemoryError
        self.limits.holds += wanted - self.room
        self.data, self.room = p, wanted
        return 0

    cdef int forget(self) except -1:
        """Frees the room: a connection that waits costs little."""
        self.limits.holds -= self.room
        free(self.data)
        self.data = NULL
        self.room = self.start = self.end = 0
        return 0

    # -- sending

    def send(self, *parts):
        """Sends an answer, in one or more parts that have a buffer and do not change: soon, with
        the other answers of this turn. Does nothing for a closed connection.
        """
        for part in parts:
            if self.closed:
                return
            if self.tls is not None:
                try:
                    part = self.tls.encrypt(part)
                except OSError as error:
                    self.close(f"TLS: {error}")
                    return
            self.push(part)

    cdef int push(self, object data) except -1:
        cdef Py_ssize_t size = len(data)
        if size == 0:
            return 0
        self.queue.append(data)
        self.unsent += size
        return self.mark()

    cdef bint flush(self) except -1:
        """Sends what the socket takes. Returns whether some is left."""
        cdef iovec parts[MOST_PARTS]
        cdef Py_buffer views[MOST_PARTS]
        cdef msghdr message
        cdef Py_ssize_t count, i, size
        cdef ssize_t n
        cdef int problem
        self.is_dirty = False
        while not self.closed and self.unsent:
            count = 0
            try:
                while count < MOST_PARTS and self.first + count < len(self.queue):
                    PyObject_GetBuffer(self.queue[self.first + count], &views[count], PyBUF_SIMPLE)
                    parts[count].iov_base = views[count].buf
                    parts[count].iov_len = views[count].len
                    count += 1
                parts[0].iov_base = <uint8_t *>parts[0].iov_base + self.gone
                parts[0].iov_len -= self.gone
                message.msg_iov, message.msg_iovlen = parts, count
                message.msg_name, message.msg_namelen = NULL, 0
                message.msg_control, message.msg_controllen = NULL, 0
                message.msg_flags = 0
                n = sendmsg(self.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)
                problem = errno
            finally:
                for i in range(count):
                    PyBuffer_Release(&views[i])
            if n < 0:
                if problem == EAGAIN or problem == EINTR:
                    return True
                self.close("")
                return False
            self.active_at = time.monotonic()
            self.limits.sent += n
            self.unsent -= n
            n += self.gone
            self.gone = 0
            for i in range(count):
                size = len(self.queue[self.first])
                if n < size:
                    self.gone = n
                    break
                n -= size
                self.queue[self.first] = None
                self.first += 1
            if self.first == len(self.queue):
                self.queue = []
                self.first = 0
        if self.choked and not self.closed:
            self.choked = False
            self.read_again()
        return False

    cdef bint wants_reading(self) noexcept:
        """Whether the peer is to be read: it reads its answers, and is not held back."""
        return not (self.closed or self.held_back or self.choked)

    # -- holding back, and the end

    def hold_back(self):
        """Reads no further requests of this peer until `release`."""
        self.held_back = True

    def release(self):
        """Ends `hold_back`, and hands on the frames that have come meanwhile."""
        self.held_back = False
        self.read_again()

    cdef int read_again(self) except -1:
        """Has the loop wait for the peer's bytes again, and hands on those that were kept."""
        if not self.wants_reading():
            return 0
        self.mark()
        return self.go_on()

    cdef int mark(self) except -1:
        """Has the loop look after this connection at the end of its turn."""
        if not self.is_dirty:
            self.is_dirty = True
            self.dirty.append(self)
        return 0

    def close(self, str why not None):
        """Closes the connection, once. What is unsent is dropped."""
        if self.closed:
            return
        self.closed = True
        close(self.fd)
        self.limits.holds -= self.room
        self.room = 0
        if not self.is_cutting:
            free(self.data)
            self.data = NULL
        self.queue = []
        self.unsent = 0
        self.mark()  # the loop forgets it
        self.handler.ended(self, why)

    def __repr__(self):
        return f"Connection({self.peer})"
