# cython: language_level=3, boundscheck=False, wraparound=False
"""The session bells (`shm/bell.py`) that one process of the store rings."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc


cdef class Bells:
    """Bells by the number of their session. Every method holds the interpreter's lock. A compiled
    module may ring bells without it, as long as no other thread attaches or detaches one.
    """

    def __cinit__(self):
        self.pages = []
        self.sessions = []

    def __dealloc__(self):
        cdef int i
        for i in range(self.all.count):
            close(self.all.items[i].end)
        free(self.all.items)

    def __len__(self):
        return self.all.count

    cdef int find(self, object session):
        """The place of a session's bell, -1 if it has none."""
        return self.sessions.index(session) if session in self.sessions else -1

    def attach(self, session, const unsigned char[::1] page not None, int end):
        """Adds a session's bell, in the place of an older one, and rings it.

        `page` is the client's bell page, `end` the store's end of the sockets. The descriptor
        `end` belongs to this object from now on, also after an error. Raises MemoryError.
        """
        cdef silo_bell *items
        self.detach(session)
        items = <silo_bell *>realloc(self.all.items, (self.all.count + 1) * sizeof(silo_bell))
        if items == NULL:
            close(end)
            raise MemoryError
        self.all.items = items
        self.all.items[self.all.count].page = &page[0]
        self.all.items[self.all.count].rung = 0
        self.all.items[self.all.count].end = end
        self.pages.append(page)
        self.sessions.append(session)
        self.all.count += 1
        silo_ring_now(&self.all.items[self.all.count - 1])

    def detach(self, session):
        """Removes a session's bell, if it has one, and closes the store's end."""
        cdef int at = self.find(session), last = self.all.count - 1
        if at < 0:
            return
        close(self.all.items[at].end)
        self.all.items[at] = self.all.items[last]
        self.pages[at], self.sessions[at] = self.pages[last], self.sessions[last]
        self.all.count = last
        del self.pages[last:], self.sessions[last:]

    def ring(self, uint64_t reason):
        """Rings the bells of all clients that sleep for `reason`, after something was published."""
        cdef int i
        if self.all.count:
            silo_fence()
            for i in range(self.all.count):
                silo_ring_bell(&self.all.items[i], reason)

    def ring_one(self, session, uint64_t reason):
        """Rings a session's bell, if it has one and its client sleeps for `reason`."""
        cdef int at = self.find(session) if self.all.count else -1
        if at >= 0:
            silo_fence()
            silo_ring_bell(&self.all.items[at], reason)
