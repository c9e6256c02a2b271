# cython: language_level=3, boundscheck=False, wraparound=False
"""Shared mappings that keep no file descriptor open.

A `Mapping` is one `mmap(MAP_SHARED)` range that supports the buffer protocol. It is unmapped when
it is closed or collected. `mmap.mmap` would keep a duplicate of its descriptor open, which is too
much for 40,000 mapped queue windows, and it cannot populate or lock a range.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport EINVAL, errno
from libc.stdint cimport int64_t

import os

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *addr, size_t length, int prot, int flags, int fd, int64_t offset)
    int munmap(void *addr, size_t length)
    int madvise(void *addr, size_t length, int advice)
    int c_mlock "mlock"(const void *addr, size_t length)
    int c_msync "msync"(void *addr, size_t length, int flags)
    int PROT_READ, PROT_WRITE, MAP_SHARED, MS_SYNC, MADV_RANDOM, MADV_WILLNEED, MADV_HUGEPAGE
    int MADV_DONTNEED
    void *MAP_FAILED

cdef int MADV_POPULATE_WRITE = 23
cdef size_t PAGE = 4096, POPULATE_STEP = 128 * 1024


cdef class Mapping:
    """`length` bytes of the object behind `fd` from `offset` (a multiple of 4096), shared with
    every process.

    Indexing and slicing go through `memoryview(mapping)`. Raises OSError as mmap does.
    """

    cdef char *start
    cdef readonly size_t length
    cdef readonly bint writable
    cdef Py_ssize_t exports

    def __cinit__(self, int fd, int64_t offset, size_t length, bint writable=True):
        cdef void *p
        p = mmap(NULL, length, PROT_READ | (PROT_WRITE if writable else 0), MAP_SHARED, fd, offset)
        if p == MAP_FAILED:
            raise OSError(errno, f"cannot map {length} bytes at {offset}: {os.strerror(errno)}")
        self.start = <char *>p
        self.length = length
        self.writable = writable

    def __dealloc__(self):
        if self.start != NULL:
            munmap(self.start, self.length)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if self.start == NULL:
            raise ValueError("the mapping is closed")
        PyBuffer_FillInfo(view, self, self.start, self.length, not self.writable, flags)
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.exports -= 1

    def __len__(self):
        return self.length

    @property
    def closed(self):
        return self.start == NULL

    def close(self):
        """Unmaps. Raises BufferError while a view of the mapping exists."""
        if self.exports:
            raise BufferError(f"{self.exports} views of the mapping are still in use")
        if self.start != NULL:
            munmap(self.start, self.length)
            self.start = NULL

    cdef char *_range(self, size_t offset, size_t *length) except NULL:
        if self.start == NULL:
            raise ValueError("the mapping is closed")
        if offset > self.length:
            raise ValueError(f"offset {offset} is behind the mapping's {self.length} bytes")
        cdef size_t first = offset & ~(PAGE - 1)
        length[0] = min(length[0] + (offset - first), self.length - first)
        return self.start + first

    cdef _check(self, int result, str what):
        if result != 0:
            raise OSError(errno, f"{what}: {os.strerror(errno)}")

    def populate(self, size_t offset, size_t length):
        """Faults the range in for writing (MADV_POPULATE_WRITE, Linux 5.14). May wait for the disk.

        Most kernels take no core away within a system call. So there is one call for each 128 KiB,
        and no other process has to wait for all of it.

        Raises OSError: EINVAL from a kernel before 5.14, EFAULT when the disk has no space.
        """
        cdef char *p = self._range(offset, &length)
        cdef size_t at = 0
        cdef int r = 0
        with nogil:
            while at < length and r == 0:
                r = madvise(p + at, min(POPULATE_STEP, length - at), MADV_POPULATE_WRITE)
                at += POPULATE_STEP
        self._check(r, "cannot populate the mapping")

    def let_go(self, size_t offset, size_t length):
        """MADV_DONTNEED: this process has the pages of the range no longer. They stay in the page
        cache, and are as dirty as before. Who stores or loads there faults them in again.
        """
        cdef char *p = self._range(offset, &length)
        self._check(madvise(p, length, MADV_DONTNEED), "madvise(MADV_DONTNEED)")

    def advise_random(self, size_t offset=0):
        """MADV_RANDOM from `offset` on: no read-ahead, and page-cache folios of one page each."""
        cdef size_t length = self.length - min(offset, self.length)
        cdef char *p = self._range(offset, &length)
        self._check(madvise(p, length, MADV_RANDOM), "madvise(MADV_RANDOM)")

    def advise_huge(self):
        """MADV_HUGEPAGE and MADV_RANDOM: a fault brings page-cache folios of 2 MiB if the file
        system and the memory have them, and reads nothing else ahead. A kernel without huge pages
        goes on as before.
        """
        if madvise(self.start, self.length, MADV_HUGEPAGE) == 0:
            self.advise_random()
        elif errno != EINVAL:
            self._check(-1, "madvise(MADV_HUGEPAGE)")

    def will_need(self, size_t offset, size_t length):
        """MADV_WILLNEED: the kernel begins to read the range into the page cache."""
        cdef char *p = self._range(offset, &length)
        cdef int r
        if length == 0:
            return
        with nogil:
            r = madvise(p, length, MADV_WILLNEED)
        self._check(r, "madvise(MADV_WILLNEED)")

    def lock(self, size_t offset, size_t length):
        """mlock: keeps the pages of the range in memory. Raises OSError with ENOMEM or EPERM if the
        limit (RLIMIT_MEMLOCK) does not allow it."""
        cdef char *p = self._range(offset, &length)
        cdef int r
        with nogil:
            r = c_mlock(p, length)
        self._check(r, "cannot lock the mapping in memory")

    def sync(self, size_t offset, size_t length):
        """msync(MS_SYNC) of the pages that hold the range: its bytes are durable when this
        returns."""
        cdef char *p = self._range(offset, &length)
        cdef int r
        if length == 0:
            return
        with nogil:
            r = c_msync(p, length, MS_SYNC)
        self._check(r, "cannot sync the mapping")
