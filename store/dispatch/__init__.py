"""Dispatch: makes queue entries and index entries from the records of the commit log.

Reput runs it all the time. A start runs it once, for the records that a crash left undispatched.
Dispatch reads from `dispatched` to a limit: `wrote`; or `flushed` under SYNC_FLUSH, so that no
reader sees a message that a power cut could take back; or `committed` with a pool. It writes queue
entries and index entries, and the `max_offset` of each queue behind a new entry. After a batch it
writes its progress (the position and the index file's header) into the older of two slots, and then
publishes it: it moves the generation on.

**Exactly once.** The place of a queue entry is its queue offset x 20, so writing it is idempotent.
An index entry is added behind the last one, which is not. So a new reput first undoes index entries
whose number is at or above the published count: it takes them out of their chains, clears them, and
removes newer index files. Then it writes the same bytes as the killed reput.

**Light queues** (LMQ; `light.h`). A record may name further queues and its offsets there. It gets
its entries there before its keys are indexed. RocketMQ's rules say where: at the queue's end, or in
an empty queue at the offset in the record. In a store that RocketMQ 5.3 wrote the two may differ.
So a killed reput cannot tell by `max_offset` whether it was there. It looks at the queue's last
entry: one of this record or of a later one means that it was. Entries in light queues count as
dispatched with their record. Other records cost one comparison of a length for each property.

**Cache misses.** With many queues dispatch is a chain of cache misses: bucket, queue entry, window,
index slot. The kernel takes records in groups of 32 and processes each group step by step; each
step prefetches the memory that the next one needs. A queue's entry holds the start of its topic's
name, which saves one more miss.

**One message at a time.** Then the Python around the kernel would take longer than the message. So
reput follows the log within its kernel (`_follow.pyx`): it looks, dispatches, spins and sleeps
there. It returns when it lacks a file, when its mail, the number of deleted topics or its state
changes, and at least once a second for the heartbeat.

A record below its queue's `since` belongs to a deleted topic and gets no entry (`store/topics`).
"""
