# What waits for an answer of the store.

from silomq.client.producing._ring cimport Pending


cdef class Answerable(Pending):
    cdef int answered(self) except -1
