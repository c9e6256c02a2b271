# The declarations of reput's loop: from the shared headers, and its state.

from libc.stdint cimport int64_t, uint8_t, uint64_t

from silomq.shm._pauses cimport silo_end_pause, silo_may_spin, silo_pauses
from silomq.shm._words cimport Word
from silomq.store.dispatch._dispatch cimport Dispatcher

cdef extern from "shm/words.h" nogil:
    uint64_t silo_load(const void *p)
    void silo_store(void *p, uint64_t v)
    void silo_fence()
    int64_t silo_monotonic_ns()
    int silo_futex_wait(const void *p, uint64_t seen, int64_t timeout_ns)

cdef extern from "shm/layout.h" nogil:
    int CONTROL_REPUT_ASLEEP

cdef extern from "shm/metrics.h" nogil:
    int HISTOGRAM_COUNTS, HISTOGRAM_STEPS
    void silo_count_time(uint8_t *histogram, int64_t ns)

cdef extern from "shm/spin.h" nogil:
    int64_t silo_yield()

cdef extern from "errno.h" nogil:
    int EINTR

cdef enum:
    F_PREPARE = 100
    F_NEWS = 101
    MOST_OTHERS = 4


cdef class Follower:
    cdef Dispatcher dispatcher
    cdef uint8_t *control
    cdef size_t limit_at
    cdef Word limit, news
    cdef list other_words
    cdef const uint64_t *others[MOST_OTHERS]
    cdef uint64_t seen[MOST_OTHERS]
    cdef int other_count
    cdef unsigned char[::1] times
    cdef int64_t spin_ns
    cdef silo_pauses pauses
    cdef uint64_t woken                 # of the dispatcher, at the last rest
    cdef int64_t counted_at             # when it last looked at the rate, monotonic ns
    cdef uint64_t counted               # messages until then
    cdef readonly bint busy             # more than BUSY_RATE messages a second came
    cdef readonly int64_t longest_ns    # of a step of the last `run`

    cdef int follow(self, bint prepared, bint rests, int64_t slice_ns,
                    int64_t sleep_ns) noexcept nogil
    cdef bint has_changed(self) noexcept nogil
    cdef int step(self, int64_t slice_ns) noexcept nogil
    cdef bint rest(self, uint64_t limit, uint64_t news, int64_t now,
                   int64_t sleep_ns) noexcept nogil
    cdef void count(self, int64_t now) noexcept nogil
