# cython: language_level=3, boundscheck=False, wraparound=False
"""`Fates`: what becomes of messages under way. A sender tells it for each `begin` (`client.py`)."""

from libc.stdint cimport int64_t

from silomq.bench.harness.load._counts cimport Counts

cdef extern from "shm/words.h" nogil:
    int64_t silo_monotonic_ns()


cdef class Fates:
    """Latencies go to `publish`, and those until a message is on the disk to `durable`, if a client
    can tell when it is. `failed` is called with what went wrong. `numbers` (`numbers.Numbers`) are
    those of the messages, if messages are counted.

    A message is named by its `due`, ns of CLOCK_MONOTONIC, which `begin` got.
    """

    def __init__(self, Counts publish not None, Counts durable not None, failed, numbers=None):
        self.publish, self.durable = publish, durable
        self.failed, self.numbers = failed, numbers
        self.numbered = {}

    cdef bytes begin(self, bytes body, int64_t *due):
        """A message is under way from now on. Returns its body, with a number if there are numbers.
        Changes `due`, which is a name, if another message has it.
        """
        if self.numbers is not None:
            body, number = self.numbers.numbered(body)
            while due[0] in self.numbered:
                due[0] += 1
            self.numbered[due[0]] = number
        self.under_way += 1
        return body

    cdef int take_back(self, int64_t due) except -1:
        """A message is not under way: the client has refused it."""
        self.under_way -= 1
        if self.numbers is not None:
            self.numbered.pop(due, None)
        return 0

    cdef int store(self, int64_t due, int64_t now) except -1:
        """`stored`, at the time `now`."""
        self.under_way -= 1
        self.publish.add(now - due)
        if self.numbers is not None:
            self.numbers.note(self.numbered.pop(due))
        return 0

    def stored(self, int64_t due):
        """A message was acknowledged, now."""
        self.store(due, silo_monotonic_ns())

    def refused(self, int64_t due, str why not None):
        """A message was not stored."""
        self.take_back(due)
        self.failed(why)

    def delivery(self, int64_t due):
        """A function that a client calls with an error or None, and another argument, when it knows
        the fate of a message.
        """
        cdef Delivery found = Delivery.__new__(Delivery)
        found.fates, found.due = self, due
        return found


cdef class Delivery:
    """See `Fates.delivery`. A function of Python would cost as much as a client's own work."""

    cdef Fates fates
    cdef int64_t due

    def __call__(self, error, _):
        if error is None:
            self.fates.store(self.due, silo_monotonic_ns())
        else:
            self.fates.refused(self.due, str(error))
