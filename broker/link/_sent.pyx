# cython: language_level=3
"""`Sent`: the store's answer to records that the broker has put into its ring."""

from libc.stdint cimport uint32_t

from silomq.client.producing._ring cimport P_DONE, P_FAILED, Pending, Ring

cdef enum:
    DURABLE = 1                 # AckLevel.DURABLE
    LOST = -1


cdef class Answerable(Pending):
    """Records that were put into the ring, and what their answer is for."""

    cdef int answered(self) except -1:
        """The store has answered, or its session has ended: then `state` is below P_DONE."""
        return 0


cdef class Sent(Answerable):
    """Records that were put into the ring. `then(self)` is called with their answer."""

    cdef object _then

    cdef int answered(self) except -1:
        self._then(self)
        return 0

    @property
    def status(self):
        """The PutMessageStatus; -1 if the session ended before there was an answer."""
        return LOST if self.state < P_DONE else self.outcome.status

    @property
    def physical_offset(self):
        """The log offset of the first record, bytes."""
        return self.outcome.physical_offset

    @property
    def queue_offset(self):
        """The queue offset of the first record."""
        return self.outcome.queue_offset

    @property
    def store_timestamp(self):
        """When the records were stored, epoch ms."""
        return self.outcome.store_timestamp


def put(Ring ring not None, bytes records not None, uint32_t count, uint32_t slot, then, *,
        bint wait):
    """Puts `count` records for the queue in `slot` into the ring. Returns False while there is no
    room. With `wait` the answer comes when the records are as durable as the store promises.
    """
    cdef Sent sent = Sent.__new__(Sent)
    sent._then = then
    sent.needs_sync = wait and ring.level == DURABLE
    if not ring.put(records, count, slot, sent, wait=wait):
        return False
    ring.watch(sent)
    return True


def settle(Ring ring not None):
    """Takes the answers that have come, and calls what waits for them."""
    cdef Answerable sent
    ring.reap()
    for sent in ring.take_told():
        sent.answered()


def lose(Ring ring not None):
    """Ends the wait for all answers, because the session has ended."""
    cdef Answerable sent
    for sent in ring.take_open():
        sent.answered()
