# cython: language_level=3, boundscheck=False, wraparound=False
"""Counts the entries of a topic's queues, for a start. A store may have 80,000 queues, each with a
folder of its own."""

from libc cimport errno as c
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport strcpy

import os

cdef extern from "shm/words.h" nogil:
    uint32_t silo_be32(const uint8_t *p)
    uint64_t silo_be64(const uint8_t *p)

cdef extern from "store/disk/folders.h" nogil:
    ctypedef struct DIR:
        pass
    enum:
        SILO_FILE_NAME
    int closedir(DIR *folder)
    int dirfd(DIR *folder)
    DIR *silo_open_folder(int fd, const char *name)
    int silo_no_folder()
    const char *silo_next_name(DIR *folder)
    int64_t silo_number(const char *name, int64_t most)
    int64_t silo_file_base(const char *name)
    ssize_t silo_read_start(int fd, const char *name, void *to, size_t size)

cdef enum:
    ENTRY_SIZE = 20
    HEAD = 204  # entries in the first page of a file

HEAD_ENTRIES = HEAD

# A queue: its id, the first offset of its files (-1: it has none), the same of its last file, and
# how many of the first entries of its last file lead to records below the limits.
cdef struct Queue:
    int64_t queue_id
    int64_t first
    int64_t last
    int files
    int below
    int expired


cdef int count_below(const uint8_t *head, int entries, int64_t limit) noexcept nogil:
    """How many of the first entries lead to records below log offset `limit`."""
    cdef int low = 0, high = entries, middle
    cdef const uint8_t *entry
    while low < high:
        middle = (low + high) // 2
        entry = head + ENTRY_SIZE * middle
        if <int>silo_be32(entry + 8) > 0 and <int64_t>silo_be64(entry) < limit:
            low = middle + 1
        else:
            high = middle
    return low


cdef int look(int topic, const char *name, Queue *queue, int64_t limit,
              int64_t first) noexcept nogil:
    """Fills in `queue` from the folder `name` below `topic`. 1 if it is one, 0 if it is no folder,
    -1 with errno for an error."""
    cdef uint8_t head[HEAD * ENTRY_SIZE]
    cdef char last[SILO_FILE_NAME + 1]
    cdef int64_t base
    cdef ssize_t size
    cdef int error, entries
    cdef const char *file
    cdef DIR *folder = silo_open_folder(topic, name)
    if folder == NULL:
        return 0 if silo_no_folder() else -1
    queue.first = queue.last = -1
    queue.files = queue.below = queue.expired = 0
    while True:
        file = silo_next_name(folder)
        if file == NULL:
            break
        base = silo_file_base(file)
        if base < 0:
            continue
        queue.files += 1
        if queue.first < 0 or base < queue.first:
            queue.first = base
        if base > queue.last:
            queue.last = base
            strcpy(last, file)
    error = c.errno
    size = 0
    if error == 0 and queue.files:
        size = silo_read_start(dirfd(folder), last, head, HEAD * ENTRY_SIZE)
        if size < 0:
            error = c.errno
    closedir(folder)
    if error:
        c.errno = error
        return -1
    entries = <int>(size // ENTRY_SIZE)
    queue.below = count_below(head, entries, limit)
    queue.expired = count_below(head, entries, first)
    return 1


def count_topic(int root, bytes topic not None, int64_t limit, int64_t first, int64_t most):
    """Counts the entries of the queues in the folder `topic` below the folder `root`.

    Returns, by ascending queue id up to `most`: (queue id, number of files, offset of the first
    one, offset of the last one, how many of its first HEAD_ENTRIES entries lead to records below
    log offset `limit`, how many below `first`). A folder that is not there has no queues. Raises
    OSError, MemoryError."""
    cdef const char *name = topic
    cdef int error = 0
    cdef int64_t count = 0
    cdef Queue *queues = NULL
    with nogil:
        count = list_queues(root, name, limit, first, most, &queues)
        if count < 0:
            error = c.errno
    try:
        if error:
            raise OSError(error, os.strerror(error), os.fsdecode(topic))
        found = []
        for i in range(count):
            q = queues[i]
            found.append((q.queue_id, q.files, q.first, q.last, q.below, q.expired))
    finally:
        free(queues)
    found.sort()
    return found


cdef int64_t list_queues(int root, const char *topic, int64_t limit, int64_t first, int64_t most,
                         Queue **queues) noexcept nogil:
    """Fills in `queues`, which the caller frees, and returns their number; -1 with errno for an
    error."""
    cdef int64_t count = 0, room = 0, queue_id
    cdef int found = 1, error
    cdef const char *name
    cdef Queue *larger
    cdef DIR *folder = silo_open_folder(root, topic)
    if folder == NULL:
        return 0 if silo_no_folder() else -1
    while found >= 0:
        name = silo_next_name(folder)
        if name == NULL:
            found = -1 if c.errno else 0
            break
        queue_id = silo_number(name, most)
        if queue_id < 0:
            continue
        if count == room:
            room = max(16, 2 * room)
            larger = <Queue *>realloc(queues[0], room * sizeof(Queue))
            if larger == NULL:
                found = -1
                break
            queues[0] = larger
        queues[0][count].queue_id = queue_id
        found = look(dirfd(folder), name, &queues[0][count], limit, first)
        count += found == 1
    error = c.errno
    closedir(folder)
    c.errno = error
    return -1 if found < 0 else count
