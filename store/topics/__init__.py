"""The topic table in shared memory: topics, queues, grants, leases, notices; and deleted topics.

Each store has one table. Every process maps it, clients read-only. Entries are never moved, so the
number of a queue's entry, its *slot*, identifies the queue in all processes while the store runs.
Writers: the registry (topics, queues, grants, leases, notices), append (a queue's next offset),
reput (its greatest offset), clean (its least offset).

**A killed registry.** A new queue's entry is written first, then the count, then the hash bucket.
The next registry makes buckets for counted entries that have none (`table_changes.repair`).

**More queues.** A topic's first queues have adjacent slots. Later ones take any free slots, and are
found by their hash. **Fewer queues** is only a smaller number: entries, folders and messages stay,
also over a restart, and are used again when the number grows. As in RocketMQ, an administrator
lowers the number of write queues first, and that of read queues when consumers have read all.

**Revoking permissions.** A permission that a topic loses is revoked in the grants of all sessions.
The registry answers the administrator only after append has run a full round since, or sleeps. So
after that answer append takes no message by the old grants. The wait takes at most one slice of
append (50 ms).

**New topics.** A producer must not wait until topics.json is synced when it opens a new topic, and
with 20,000 topics each save takes long. So the registry first adds a line to `silomq/makers`: how
many queues the topic has, and which user it was made for. A start that finds records or queues of a
topic that is not in topics.json gives it so many queues. After a power cut the line may be lost.
Then the topic has `default_topic_queue_nums`, and one for each queue id that occurs.

**Deletion.** The log keeps the records of a deleted topic until they expire. RocketMQ's recovery
dispatches them again, and the topic is back. Here `silomq/deleted` has for each deleted topic the
log offset below which records of its name belong to no topic. Each queue's entry has that offset as
`since`, and dispatch makes no queue entry for a record below it; the record's keys stay in the
index. Each step can be repeated:

1. The topic's entry becomes DELETING, and look-ups no longer find it. Its grants are revoked, and
   the registry waits for a round of append. Now all records of the topic lie below `wrote`.
2. `silomq/deleted` is replaced, durably, with that offset. From here on the topic is deleted. It
   must not be later: once dispatch has skipped a record, the topic cannot come back. It must not be
   earlier: a record behind the offset would belong to the next topic of that name.
3. `since` of its queues becomes the greatest number, and the registry waits for a round of reput,
   which then makes no more files for the topic.
4. `topics.json` is written without it. Its folders are removed, durably. The deletion in
   `silomq/deleted` becomes `done`, and reput unmaps the topic's files.

Only then may the name be used again, by new entries whose `since` is that offset. Each new entry
takes the bucket of an old one in a single store, so a look-up finds one of the two at every moment.
Slots of deleted topics are free again after a restart.

A start finishes deletions that are not done before it reads queues. The offset counts only up to
the log's end, because a power cut may have shortened the log. If RocketMQ has run on the store
since, it has dispatched records from before the deletion. A start removes the queues if they hold
only such records. If they also hold records of a new topic of that name, all of them stay. A
deletion is forgotten when the log begins behind its offset.
"""
