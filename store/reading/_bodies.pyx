# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The bodies of records for the column kernel: those that a producer compressed are decompressed.

Only these take the interpreter's lock; the decompressors release it again.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t

from ..record.compression import Undecodable, decompress


cdef class Bodies:
    """Gives one body after the other, decompressed unless `raw` is set. `bad` describes those that
    could not be decompressed: (log offset, why).
    """

    def __cinit__(self, bint raw):
        self.raw = raw
        self.bad = []

    cdef bint decompress(self, const silo_record *m) noexcept with gil:
        """`find_body` for a compressed body."""
        self.at = NULL
        self.length = 0
        self.error = None
        try:
            self.kept = decompress(PyBytes_FromStringAndSize(
                <const char *>m.bytes + m.body_at, m.body_length), m.flags)
            self.at = <const uint8_t *>PyBytes_AS_STRING(self.kept)
            self.length = <uint32_t>PyBytes_GET_SIZE(self.kept)
        except Undecodable as error:
            self.error = error
        except BaseException as error:
            self.error = error
            return False
        return True

    cdef void note(self, const silo_record *m) noexcept with gil:
        """Notes that the body found last is bad."""
        self.bad.append((<int64_t>silo_be64(m.bytes + RECORD_PHYSICAL_OFFSET), str(self.error)))
        self.error = None

    def fail(self):
        """Raises the error that ended the reading."""
        error, self.error = self.error, None
        raise MemoryError if error is None else error
