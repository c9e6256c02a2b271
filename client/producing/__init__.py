"""Sending: `Producer`, the record encoder, and the producer's side of a ring.

One Python call encodes a message, in its final form, straight into the session's ring. Append
copies it once into the log and fills in offsets and time. Calls run one way:

- `producer.py` is the public class, and `send_session.py` the session below it. The session decides
  whether the store is alive and whether to connect again.
- `resend.py` decides what becomes of messages that were refused, or not answered.
- `callbacks.py` is the thread that calls the callbacks of futures.
- `_sender.pyx` encodes and publishes.
- `_ring.pyx` handles only the ring.

An exception of a callback goes to the log, and the thread goes on: it serves all other callbacks
too. SystemExit and KeyboardInterrupt are raised where the caller's own thread called the callback.

The refusals of a put. Append repeats each check that the client makes:

| cause | status | answered by |
|---|---|---|
| the store stops, or has died | StoreClosed | client, from ring and connection |
| a sync failed (`flush_error`) | SERVICE_NOT_AVAILABLE | append |
| an actor lacks a file (`failed`) | SERVICE_NOT_AVAILABLE | append |
| a disk above `disk_space_warning_level_ratio` (`disk_flags`) | SERVICE_NOT_AVAILABLE | append |
| no next commit-log file (`allocate_error`) | CREATE_MAPPED_FILE_FAILED | append |
| append is stuck for longer than `os_page_cache_busy_timeout_ms` | OS_PAGE_CACHE_BUSY | client |
| an illegal name, body, queue, grant or record | MESSAGE_ILLEGAL | client, registry, append |
| properties above 32,767 bytes | PROPERTIES_SIZE_EXCEEDED | client, append |
| a time more than three days ahead, `TIMER_*` as a property | WHEEL_TIMER_MSG_ILLEGAL | client |

Statuses cross the ring as numbers; `refusals.py` makes a sentence of them and the control block.

**Asynchronous calls.** `await future` waits in the event loop, and `Producer.fileno` is for loops
of other kinds (`waking.py`). Both sleep on the session's own bell. Only callbacks need a thread,
and a producer that reconnects (`on_restart="retry"`), because that may wait for seconds.

**Page cache busy** cannot be append's own answer, because append answers nothing while it is stuck.
RocketMQ notes when the put lock was taken. Here that would cost a clock reading and two stores for
each batch. Instead, a producer reads append's heartbeat, which append writes before each slice of
50 ms. Append is stuck if the heartbeat is older than the time-out while `append_asleep` is 0. A
producer looks after it has waited 50 ms without progress. From then on, until append moves, each
put is refused *before* it is published, so nothing of it is stored. Messages that were published
before may still be stored (SendTimeout).
"""
