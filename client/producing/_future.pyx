# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`SendFuture`: the result of one message or batch.

The ring resolves futures. A future whose wait sees no progress asks its session whether the store
is still there; it never decides that itself.
"""

import logging

from libc.stdint cimport int64_t

from silomq.client.producing._ring cimport (
    P_APPENDED, P_DONE, P_FAILED, W_DONE, W_LATE, Pending, Ring, deadline_after,
)

from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus
from .. import arguments
from ..errors import SendTimeout, StoreClosed
from .send_result import SendResult

LOG = logging.getLogger("silomq")
cdef object OWN = arguments.OWN


cdef class SendFuture(Pending):
    """The answer to one `send_async` or `send_batch_async`, which may not be there yet.

    `topic`, `queue_id` and `count` (of messages) say what was sent. The futures of a producer are
    resolved in the order of sending. A future may be awaited with `await`, in any event loop. Any
    thread may use it. `result` and `await` take answers out of the ring themselves and need no
    other thread. Callbacks use the producer's own thread.
    """

    def done(self):
        """Whether there is a result or an error. First takes the answers that have arrived."""
        if self.state < P_DONE:
            self.ring.reap()
            if self.ring.told is not None:
                self.session.settle()
            if self.state < P_DONE and self.ring.own_bell is not None:
                self.session.waking.look(self.session)
        return self.state >= P_DONE

    def result(self, timeout=OWN):
        """The SendResult. Waits for it up to `timeout` seconds, by default the producer's; None is
        no limit.

        Raises SendTimeout when there is no answer in time (the message may still be stored later).
        Raises StoreClosed when the store or the producer was closed first, and IllegalMessage when
        the store refused the message.
        """
        return self.wait(self.session.timeout_s if timeout is OWN
                         else arguments.seconds("timeout", timeout))

    def exception(self, timeout=OWN):
        """The IllegalMessage or StoreClosed that `result` would raise, or None. Waits as `result`
        does; raises SendTimeout."""
        try:
            self.await_end(self.session.timeout_s if timeout is OWN
                           else arguments.seconds("timeout", timeout))
        except (IllegalMessage, StoreClosed) as error:
            return error
        return None

    def add_done_callback(self, callback):
        """Calls `callback(future)` once: at once if the future is done. Otherwise the thread that
        sees the answer first calls it, mostly the producer's own.

        An exception of the callback goes to the log `silomq`, and the next callback is called.
        SystemExit and KeyboardInterrupt end the thread that called the callback, but only if it is
        one of the caller's. The callback may send, and may close the producer.
        """
        arguments.function("callback", callback)
        cdef list added = [callback]  # made first: what follows must not be interrupted
        if self.state < P_DONE:
            if self.callbacks is None:
                self.callbacks = added
                self.ring.watch(self)
            else:
                self.callbacks.append(callback)
            self.session.serve_callbacks()
            return
        error = _called(callback, self)
        if error is not None:
            raise error

    def __await__(self):
        if self.state < P_DONE:
            self.ring.reap()
            if self.ring.told is not None:
                self.session.settle()
        if self.state < P_DONE:
            yield from self.session.waking.wait(self.session, self).__await__()
        return self.result(0)

    def __reduce_ex__(self, protocol):
        arguments.no_copy(self)

    cdef object wait(self, double timeout_s):
        """The same as `result`, callable from C."""
        self.await_end(timeout_s)
        return self.make_result()

    cdef int await_end(self, double timeout_s) except -1:
        """Waits for the answer, and raises as `result` does."""
        cdef Ring ring = self.ring
        cdef int64_t deadline
        cdef int end
        if self.state < P_DONE:
            deadline = deadline_after(timeout_s)
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
        return 0

    cdef object failure(self):
        """The error of a failed future. The reason of a refusal is taken from the control block
        when the answer is seen.
        """
        if self.error is None:
            self.error = self.session.refuse(self.outcome.status)
        return self.error

    cdef object make_result(self):
        result = SendResult(
            PutMessageStatus(self.outcome.status), self.topic, self.queue_id,
            self.outcome.queue_offset, self.outcome.physical_offset, self.outcome.store_timestamp,
            self.count, (self.key_prefix, self.key_time, self.key_counter, self.key_wrap),
            self.lengths, self.store_host, self.level,
        )
        if self.timer is not None:
            result._timer = self.timer
        return result


def watch(SendFuture future not None, callback):
    """As `add_done_callback`, but starts no thread: the caller sees to the answer. `unwatch` takes
    the callback back.
    """
    cdef list added = [callback]
    if future.state >= P_DONE:
        callback(future)
    elif future.callbacks is None:
        future.callbacks = added
        future.ring.watch(future)
    else:
        future.callbacks.append(callback)


def unwatch(SendFuture future not None, callback):
    """Takes back a callback of `watch`, if it was not called."""
    if future.callbacks is not None and callback in future.callbacks:
        future.callbacks.remove(callback)


def settle(Ring ring):
    """Gives refused futures their errors, then runs callbacks, for all that the ring has resolved
    since the last call. Raises the last SystemExit or KeyboardInterrupt of a callback, after all of
    them have run."""
    cdef SendFuture future
    cdef list told
    if ring.told is None:
        return
    told = ring.take_told()
    for future in told:
        if future.state == P_FAILED:
            future.failure()
    error = None
    for future in told:
        error = _run_callbacks(future) or error
    if error is not None:
        raise error


def fail(pendings, error):
    """Fails the open futures of a session with `error`. `settle` runs their callbacks."""
    cdef SendFuture future
    for future in pendings:
        if future is not None and future.state < P_DONE:
            future.error = error
            future.ring.resolve(future, P_FAILED)


cdef object _run_callbacks(SendFuture future):
    """Runs a future's callbacks. Returns what `_called` returned last, if not None."""
    cdef list callbacks = future.callbacks
    future.callbacks = None
    error = None
    if callbacks is not None:
        for callback in callbacks:
            error = _called(callback, future) or error
    return error


cdef object _called(callback, SendFuture future):
    """Calls a callback. Its exception goes to the log, because no caller could catch it. Returns a
    SystemExit, KeyboardInterrupt or another exception that ends a thread.
    """
    try:
        callback(future)
    except Exception:
        LOG.exception("a SendFuture's callback failed: %s", arguments.named(callback))
    except BaseException as error:
        return error
    return None
