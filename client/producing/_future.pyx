# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The future of a message that was sent: resolved by its producer, in the order of sending."""

import collections
import sys

from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus
from ..errors import StoreClosed
from .send_result import SendResult


cdef class SendFuture:
    """What will become of one `send_async` (or batch). Resolved in the order of sending; usable
    with `await`.

    `result` helps along by looking at the ring itself, so no thread is needed for it. Callbacks and
    `await` are served by the producer's thread.
    """

    def done(self):
        """Whether there is a result or an error. Looks at the ring first."""
        if self.state < F_DONE:
            self.producer.look()
        return self.state >= F_DONE

    def result(self, timeout=None):
        """The SendResult; waits for it up to `timeout` seconds (by default the producer's).

        Raises SendTimeout (the message may still be stored later), StoreClosed, or IllegalMessage
        when the store refused the message.
        """
        if self.state < F_DONE:
            self.producer.wait_for(
                self, self.producer.send_timeout_s if timeout is None else timeout)
        if self.state == F_FAILED:
            raise self.error
        return self.make_result()

    def exception(self, timeout=None):
        """The error that `result` would raise, or None."""
        try:
            self.result(timeout)
        except (IllegalMessage, StoreClosed) as error:
            return error
        return None

    def add_done_callback(self, callback):
        """Calls `callback(future)` once: at once if it is done, else from the producer's thread."""
        if self.state >= F_DONE:
            callback(self)
            return
        if self.callbacks is None:
            self.callbacks = []
            self.producer.expect_callback()
        self.callbacks.append(callback)
        self.producer.serve_callbacks()

    def __await__(self):
        import asyncio
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def resolve(_):
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(None))

        self.add_done_callback(resolve)
        yield from done.__await__()
        return self.result(0)

    cdef object make_result(self):
        return SendResult(
            PutMessageStatus(self.outcome.status), self.topic, self.queue_id,
            self.outcome.queue_offset, self.outcome.physical_offset, self.outcome.store_timestamp,
            self.count, (self.key_prefix, self.key_time, self.key_counter, self.key_wrap),
            self.lengths, self.store_host, self.level,
        )


cdef run_callbacks(SendFuture future, list callbacks):
    """A callback's error is its own: it is reported as Python reports errors that nobody can
    catch."""
    for callback in callbacks:
        try:
            callback(future)
        except Exception:
            sys.unraisablehook(Unraisable(*sys.exc_info(), "in a SendFuture's callback", callback))


Unraisable = collections.namedtuple("Unraisable", "exc_type exc_value exc_traceback err_msg object")
