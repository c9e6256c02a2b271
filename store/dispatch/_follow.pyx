# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`Follower`: has a `Dispatcher` follow the log, and rests while there is nothing to dispatch.

If messages come one at a time, the Python around the kernel would take longer than the message. So
this looks, spins and sleeps without it, and returns when there is something else to do.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from posix.time cimport nanosleep, timespec

from silomq.shm._words cimport Word
from silomq.store.dispatch._dispatch cimport R_CAUGHT_UP, Dispatcher

# Reasons for `run` to return, beside the kernel's. PREPARE: there is something to dispatch, and the
# kernel has not got its files yet. NEWS: one of the other words has changed.
PREPARE, NEWS = F_PREPARE, F_NEWS

# Above this many messages a second it naps for a fixed time instead of being woken: each wake-up
# takes time from append.
cdef int64_t BUSY_RATE = 32_000
cdef int64_t NAP_NS = 1_000_000
cdef int64_t SECOND_NS = 1_000_000_000


cdef class Follower:
    """Has `dispatcher` follow the control word `limit`, which is at position `limit_at`. `news` is
    the word on which it sleeps; it changes after the limit. `others` are at most 4 words that the
    caller sees to when they change.

    `times` is the histogram of its steps (`shm/metrics.py`). It spins for `spin_ns` at most, and
    only if it has just woken a reader. That reader probably sleeps again and waits for the next
    message, so it saves the time of its own wake-up.
    """

    def __init__(self, Dispatcher dispatcher not None, size_t limit_at, Word limit not None,
                 Word news not None, list others not None, unsigned char[::1] times not None,
                 int64_t spin_ns):
        cdef int i
        self.dispatcher, self.limit_at, self.limit, self.news = dispatcher, limit_at, limit, news
        self.control, self.spin_ns = dispatcher.control, spin_ns
        self.other_words, self.other_count = others, len(others)
        self.times = times
        if self.other_count > MOST_OTHERS:
            raise ValueError(f"{self.other_count} words, and {MOST_OTHERS} at most")
        if times.shape[0] < HISTOGRAM_COUNTS + 8 * HISTOGRAM_STEPS:
            raise ValueError(f"a histogram has more than {times.shape[0]} bytes")
        for i in range(self.other_count):
            self.others[i] = (<Word?>others[i]).p
        self.counted_at = silo_monotonic_ns()
        self.counted = dispatcher.state.dispatch_count

    def run(self, list seen not None, *, bint prepared, bint rests, int64_t slice_ns,
            int64_t sleep_ns):
        """Dispatches and rests for about `slice_ns`, and sleeps for `sleep_ns` at most. Returns the
        kernel's reason, PREPARE or NEWS; CAUGHT_UP also after a rest, and when a signal came.

        Returns as soon as one of the other words is not as in `seen`. Without `prepared` it
        dispatches nothing. Unless it `rests` it returns when everything is dispatched.
        """
        cdef int i, reason
        for i in range(self.other_count):
            self.seen[i] = seen[i]
        self.longest_ns = 0
        with nogil:
            reason = self.follow(prepared, rests, slice_ns, sleep_ns)
        return reason

    cdef int follow(self, bint prepared, bint rests, int64_t slice_ns,
                    int64_t sleep_ns) noexcept nogil:
        cdef int64_t now = silo_monotonic_ns(), until = now + slice_ns
        cdef uint64_t news, limit
        cdef int reason
        while True:
            if self.has_changed():
                return F_NEWS
            news = silo_load(self.news.p)  # first: it changes after the limit
            limit = silo_load(self.limit.p)
            if self.dispatcher.state.dispatched < limit:
                if not prepared:
                    return F_PREPARE
                reason = self.step(slice_ns)
                if reason != R_CAUGHT_UP:
                    return reason
            now = silo_monotonic_ns()
            if silo_load(self.limit.p) == limit:
                if not rests or self.rest(limit, news, now, sleep_ns):
                    return R_CAUGHT_UP
                now = silo_monotonic_ns()
            if now >= until:
                return R_CAUGHT_UP

    cdef bint has_changed(self) noexcept nogil:
        cdef int i
        for i in range(self.other_count):
            if silo_load(self.others[i]) != self.seen[i]:
                return True
        return False

    cdef int step(self, int64_t slice_ns) noexcept nogil:
        cdef int64_t began = silo_monotonic_ns(), took
        cdef int reason = self.dispatcher.work(self.limit_at, slice_ns)
        took = silo_monotonic_ns() - began
        silo_count_time(&self.times[0], took)
        if took > self.longest_ns:
            self.longest_ns = took
        return reason

    cdef bint rest(self, uint64_t limit, uint64_t news, int64_t now,
                   int64_t sleep_ns) noexcept nogil:
        """Waits until the word differs from `limit`, or 1 ms at a high message rate. `news` is what
        that word was at the look. Returns whether a signal has come.
        """
        cdef bint spins = self.dispatcher.woken != self.woken, is_signal = False
        cdef timespec nap
        self.woken = self.dispatcher.woken
        self.count(now)
        if self.busy:
            nap.tv_sec, nap.tv_nsec = 0, NAP_NS
            return nanosleep(&nap, NULL) != 0
        self.pauses.since = now
        while spins and silo_may_spin(&self.pauses, now, self.spin_ns):
            now = silo_yield()
            if silo_load(self.limit.p) != limit:
                silo_end_pause(&self.pauses, now, self.spin_ns)
                return False
        silo_store(self.control + CONTROL_REPUT_ASLEEP, 1)
        silo_fence()
        if silo_load(self.news.p) == news and not self.has_changed():
            is_signal = silo_futex_wait(self.news.p, news, sleep_ns) == -EINTR
        silo_store(self.control + CONTROL_REPUT_ASLEEP, 0)
        silo_end_pause(&self.pauses, silo_monotonic_ns(), self.spin_ns)
        return is_signal

    cdef void count(self, int64_t now) noexcept nogil:
        """Looks at the rate of messages, once a millisecond at most."""
        cdef int64_t messages
        if now - self.counted_at < NAP_NS:
            return
        messages = <int64_t>(self.dispatcher.state.dispatch_count - self.counted)
        self.busy = messages >= (now - self.counted_at) * BUSY_RATE / SECOND_NS
        self.counted_at = now
        self.counted = self.dispatcher.state.dispatch_count
