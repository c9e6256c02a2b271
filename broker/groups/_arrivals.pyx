# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`Arrivals`: which of many queues have grown. One look at all of them costs a load of each."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc

from silomq.shm._words cimport Word

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)


cdef struct Place:
    const uint64_t *word
    uint64_t seen
    int slot


cdef class Arrivals:
    """The queues that are looked at, by slot."""

    cdef dict words                 # slot -> the queue's word, which keeps its memory mapped
    cdef dict at                    # slot -> its place
    cdef Place *places
    cdef Py_ssize_t count, room

    def __init__(self):
        self.words = {}
        self.at = {}

    def __dealloc__(self):
        free(self.places)

    def add(self, int slot, Word word not None, uint64_t seen):
        """Looks at a queue until `remove`: whether its word is still `seen`."""
        cdef Py_ssize_t room
        cdef Place *places
        if slot in self.at:
            raise ValueError(f"slot {slot} is looked at already")
        if self.count == self.room:
            room = max(64, 2 * self.room)
            places = <Place *>realloc(self.places, room * sizeof(Place))
            if places == NULL:
                raise MemoryError
            self.places, self.room = places, room
        self.words[slot] = word
        self.at[slot] = self.count
        self.places[self.count].word = word.p
        self.places[self.count].seen = seen
        self.places[self.count].slot = slot
        self.count += 1

    def remove(self, int slot):
        """Looks at a queue no more. Raises KeyError for one that was not added."""
        cdef Py_ssize_t place = self.at.pop(slot)
        del self.words[slot]
        self.count -= 1
        if place != self.count:
            self.places[place] = self.places[self.count]
            self.at[self.places[place].slot] = place

    def grown(self):
        """The slots of the queues whose word has changed."""
        cdef Py_ssize_t i
        cdef list found = []
        for i in range(self.count):
            if silo_load(self.places[i].word) != self.places[i].seen:
                found.append(self.places[i].slot)
        return found
