"""The topic table in shared memory: topics, queues, grants, leases, notices; and deleted topics.

One table a store. Every process maps it, clients read-only. Entries are never moved, so the number
of a queue's entry, its *slot*, names the queue in all processes for as long as the store runs.
Writers: the registry (topics, queues, grants, leases, notices), append (a queue's next offset),
reput (its greatest offset), clean (its least offset).

**A killed registry.** A new queue's entry is written first, then the count, then the hash bucket.
The next registry files what is counted and not found (`table_changes.repair`).

**More queues.** A topic's first queues lie in a row; those it gets later take slots wherever there
is room, and are found by their hash. **Fewer queues** is only a smaller number: entries, folders
and messages stay, also over a restart, and are used again when the number grows. As in RocketMQ,
one lowers the write queues first, and the read queues when everything is read.

**Taking rights back.** A permission that a topic loses is revoked in the grants of all sessions.
The answer to the administrator waits until append has come round once: it has beaten, or it sleeps.
No message that was refused after that answer is appended later. The wait takes at most one slice of
append (50 ms).

**Deletion.** The log keeps the records of a deleted topic until they expire. RocketMQ's recovery
dispatches them again, and the topic is back. Here `silomq/deleted` says of each deleted topic the
log offset below which records of that name belong to nobody. Each queue's entry has that offset as
`since`, and dispatch makes no queue entry for a record below it; the record's keys stay in the
index. Each step can be repeated:

1. The topic's entry says DELETING: no look-up finds it. Its grants are revoked, and append comes
   round. All its records now lie below `wrote`, and no other will come.
2. `silomq/deleted` is replaced, durably, with that offset. From here on the topic is deleted. Not
   later: once dispatch has passed over a record, the topic cannot come back. Not earlier: a record
   behind the offset would belong to the next topic of that name.
3. `since` of its queues becomes the greatest number. Reput comes round, and makes no more files for
   it.
4. `topics.json` is written without it. Its folders are removed and the removal is synced.
   `silomq/deleted` says `done`, and reput unmaps what it had open.

Only then may the name be used again, by new entries whose `since` is that offset. Each new entry
takes the bucket of an old one in a single store, so a look-up finds one of the two at every moment.
Slots of deleted topics are free again after a restart.

A start goes on with a deletion that is not done before it looks at queues. The offset counts up to
the log's end only, because a power cut may have taken what was behind it. Queues that hold nothing
but records of before the deletion are removed again: RocketMQ had the store and dispatched them. If
RocketMQ dispatched them into a new topic of that name, old and new are mixed and stay. A deletion
is forgotten when the log begins behind its offset.
"""
