"""Dispatch: from the commit log into consume queues and index.

Reput runs it all the time; a start runs it once for what a crash left undone. Dispatch reads from
`dispatched` to a limit: `wrote`, or `flushed` under SYNC_FLUSH (no reader sees what a power cut
could take), or `committed` with a pool. For each batch it writes queue entries and index entries,
then each touched queue's `max_offset`, then its progress (position and the index file's header)
into the older of two slots, and then flips the generation.

**Exactly once.** The place of a queue entry is its queue offset x 20, so writing it again changes
nothing. An index entry is added at the end. A new reput therefore first undoes: entries whose
number is at or above the published count are taken out of their chains and zeroed, and newer index
files are removed. What it then writes is byte for byte what the killed one would have written.

**Cache misses.** With many queues dispatch is a chain of cache misses: bucket, queue entry, window,
index slot. The kernel takes records in groups of 32 and goes through the group step by step; each
step prefetches what the next one needs. A queue's entry holds the start of its topic's name, which
saves one more miss.

A record below its queue's `since` belongs to a deleted topic and gets no entry (`store/topics`).
"""
