"""Sending: `Producer`, the record encoder, and the producer's side of a ring.

One Python call encodes a message, in its final form, straight into the session's ring. Append
copies it once into the log and fills in offsets and time. Calls run one way: `Producer`
(`producer.py`, `_sender.pyx`) encodes and publishes; `send_session.py` owns the session and decides
whether the store is alive and whether to connect again; `_ring.pyx` knows nothing but the ring.
`resend.py` decides what becomes of messages that were refused, or not answered.

When a put is refused (each bound that the client checks, append checks again):

| cause | status | who answers |
|---|---|---|
| the store stops, or is gone | StoreClosed | client, from ring and connection |
| a sync failed (`flush_error`) | SERVICE_NOT_AVAILABLE | append |
| a disk above `disk_space_warning_level_ratio` (`disk_flags`) | SERVICE_NOT_AVAILABLE | append |
| no next commit-log file (`allocate_error`) | CREATE_MAPPED_FILE_FAILED | append |
| append is stuck for longer than `os_page_cache_busy_timeout_ms` | OS_PAGE_CACHE_BUSY | client |
| an illegal name, body, queue, grant or record | MESSAGE_ILLEGAL | client, registry, append |
| properties above 32,767 bytes | PROPERTIES_SIZE_EXCEEDED | client, append |
| a time more than three days ahead, `TIMER_*` as a property | WHEEL_TIMER_MSG_ILLEGAL | client |

Statuses cross the ring as numbers; `refusals.py` makes the sentence of what the control block says.

**Page cache busy** cannot be append's own answer: while append is stuck it answers nothing.
RocketMQ notes when the put lock was taken, which would cost a clock reading and two stores for each
batch here. Append beats before each slice of 50 ms and says when it sleeps: a beat older than the
time-out while `append_asleep` is 0 is the same fact, for nothing. A producer looks when it has
waited 50 ms in vain. From then on, until append moves, each put is refused *before* it is
published: nothing of it is stored. What was published before stays unknown (SendTimeout).
"""
