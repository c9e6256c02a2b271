# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`SendFuture`: the result of one message or batch.

The ring resolves futures. A future whose wait sees no progress asks its session whether the store
is still there; it never decides that itself.
"""

import collections
import sys

from libc.stdint cimport int64_t

from silomq.client.producing._ring cimport (
    P_APPENDED, P_DONE, P_FAILED, W_DONE, W_LATE, Pending, Ring, silo_monotonic_ns,
)

from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus
from ..errors import SendTimeout, StoreClosed
from .send_result import SendResult


cdef class SendFuture(Pending):
    """The answer to one `send_async` or `send_batch_async`, which may not be there yet.

    `topic`, `queue_id` and `count` (of messages) say what was sent. The futures of a producer are
    resolved in the order of sending. A future may be awaited with `await`. Any thread may use it.
    `result` takes answers out of the ring itself and needs no other thread. Callbacks and `await`
    use the producer's own thread.
    """

    def done(self):
        """Whether there is a result or an error. First takes the answers that have arrived."""
        if self.state < P_DONE:
            self.ring.reap()
            if self.ring.told is not None:
                self.session.settle()
        return self.state >= P_DONE

    def result(self, timeout=None):
        """The SendResult. Waits for it up to `timeout` seconds, by default the producer's.

        Raises SendTimeout when there is no answer in time (the message may still be stored later).
        Raises StoreClosed when the store or the producer was closed first, and IllegalMessage when
        the store refused the message.
        """
        return self.wait(self.session.timeout_s if timeout is None else timeout)

    def exception(self, timeout=None):
        """The IllegalMessage or StoreClosed that `result` would raise, or None. Waits as `result`
        does; raises SendTimeout."""
        try:
            self.result(timeout)
        except (IllegalMessage, StoreClosed) as error:
            return error
        return None

    def add_done_callback(self, callback):
        """Calls `callback(future)` once: at once if the future is done. Otherwise the thread that
        sees the answer first calls it.

        An exception of the callback goes to `sys.unraisablehook`.
        """
        if self.state >= P_DONE:
            callback(self)
            return
        if self.callbacks is None:
            self.callbacks = []
            self.ring.watch(self)
        self.callbacks.append(callback)
        self.session.serve_callbacks()

    def __await__(self):
        import asyncio
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def resolve(_):
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

        self.add_done_callback(resolve)
        yield from done.__await__()
        return self.result(0)

    cdef object wait(self, double timeout_s):
        """The same as `result`, callable from C."""
        cdef Ring ring = self.ring
        cdef int64_t deadline
        cdef int end
        if self.state < P_DONE:
            deadline = silo_monotonic_ns() + <int64_t>(timeout_s * 1e9)
            while True:
                end = ring.wait_for(self, deadline)
                if ring.told is not None:
                    self.session.settle()
                if end == W_DONE:
                    break
                if end == W_LATE:
                    known = ("appended, not yet durable" if self.state == P_APPENDED
                             else "not yet appended")
                    raise SendTimeout(f"no answer for {timeout_s:g} s; the message may still be "
                                      f"stored: state {known}")
                self.session.look_after()
        if self.state == P_FAILED:
            raise self.failure()
        return self.make_result()

    cdef object failure(self):
        """The error of a failed future. The reason of a refusal is taken from the control block
        when the answer is seen.
        """
        if self.error is None:
            self.error = self.session.refuse(self.outcome.status)
        return self.error

    cdef object make_result(self):
        return SendResult(
            PutMessageStatus(self.outcome.status), self.topic, self.queue_id,
            self.outcome.queue_offset, self.outcome.physical_offset, self.outcome.store_timestamp,
            self.count, (self.key_prefix, self.key_time, self.key_counter, self.key_wrap),
            self.lengths, self.store_host, self.level,
        )


def settle(Ring ring):
    """Gives refused futures their errors, then runs callbacks, for all that the ring has resolved
    since the last call."""
    cdef SendFuture future
    cdef list told
    if ring.told is None:
        return
    told = ring.take_told()
    for future in told:
        if future.state == P_FAILED:
            future.failure()
    for future in told:
        _run_callbacks(future)


def fail(pendings, error):
    """Fails the open futures of a session with `error`. `settle` runs their callbacks."""
    cdef SendFuture future
    for future in pendings:
        if future is not None and future.state < P_DONE:
            future.error = error
            future.ring.resolve(future, P_FAILED)


cdef _run_callbacks(SendFuture future):
    """Runs a future's callbacks. No caller could catch their exceptions, so they go to
    `sys.unraisablehook`.
    """
    cdef list callbacks = future.callbacks
    future.callbacks = None
    if callbacks is None:
        return
    for callback in callbacks:
        try:
            callback(future)
        except Exception:
            sys.unraisablehook(Unraisable(*sys.exc_info(), "in a SendFuture's callback", callback))


Unraisable = collections.namedtuple("Unraisable", "exc_type exc_value exc_traceback err_msg object")
