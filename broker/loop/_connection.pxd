# One peer of the broker: what has arrived of it, and what is to be sent to it.

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef class FastPath:
    cdef bint serve(self, Connection connection, const uint8_t *frame, Py_ssize_t length) except -1


cdef class Limits:
    cdef public FastPath fast           # what is asked first to serve a frame, or None
    cdef readonly Py_ssize_t frame, unsent, held
    cdef readonly Py_ssize_t holds      # bytes of unfinished frames of all connections
    cdef readonly uint64_t received, sent   # bytes of all connections
    cdef object secure                  # makes a layer of TLS, or None
    cdef readonly bint plain            # whether connections without TLS are allowed
    cdef uint8_t *scratch


cdef class Connection:
    cdef object __weakref__
    cdef readonly int fd
    cdef readonly str peer
    cdef readonly bytes host
    cdef readonly bint closed
    cdef readonly Py_ssize_t unsent
    cdef readonly double active_at
    cdef public object state
    cdef object handler, tls
    cdef Limits limits
    cdef list dirty                     # the loop's: those that have something to send
    cdef bint fresh, is_dirty, held_back, choked, is_cutting
    cdef uint8_t *data
    cdef Py_ssize_t room, start, end
    cdef list queue
    cdef Py_ssize_t first, gone         # the first unsent part, and what of it was sent

    cdef int receive(self) except -1
    cdef int take(self, const uint8_t *p, Py_ssize_t n) except -1
    cdef Py_ssize_t cut(self, const uint8_t *p, Py_ssize_t n) except -1
    cdef int keep(self, const uint8_t *p, Py_ssize_t n) except -1
    cdef int make_room(self, Py_ssize_t more) except -1
    cdef int forget(self) except -1
    cdef int go_on(self) except -1
    cdef int push(self, object data) except -1
    cdef bint flush(self) except -1
    cdef bint wants_reading(self) noexcept
    cdef int read_again(self) except -1
    cdef int mark(self) except -1
