"""Recovery: how a start continues from the files that an earlier run left.

A start first looks, then acts. `look.py` reads files and makes the plan (`plan.py`): what it found,
and what the start will do. It changes no file, and it refuses damage. `apply.py` carries out the
plan. The plan, with the counts of what was done, is the report that `silo status` shows.

**Where to begin.** The store's progress record (`durable_progress.py`, `silomq/progress`) says what
was durable: `flushed`, `dispatched`, the state of the index. It counts if RocketMQ's `checkpoint`
is still the one that was written with it. Otherwise RocketMQ has run on the store, and its own
files decide (`rocketmq_progress.py`). After its clean stop queues and index are complete. After its
crash dispatch begins at the newest log file whose first record is at least 3 s older than the
checkpoint's times. Index files that were not full and durable are made anew. The work of a start
is bounded by the amount of data that was not durable, not by the size of the store.

**The log's end.** The log is scanned from `flushed`. A bad end is *torn* if no good record follows
it, or if the machine was booted since and the records that follow were not durable. It is cut off
and kept in `recovery/`. Other good records behind bad bytes mean *damage*: the store reports their
offsets and does not start. RocketMQ does not erase the records that it cuts off. They are older
than the records before the end, and do not count.

**After a power cut** (`power_cut.py`) any pages may be missing on the disk. Behind the first lost
record there may be whole ones, also in later files. Behind a queue's last entry there may be
entries of lost records. A later start could take them for valid ones. A crash of processes leaves
none of these, because the page cache outlives processes. The kernel's boot id in `silomq/boot`
tells the two cases apart. If it has changed, the log ends at its first lost record. The bytes
behind are copied to `recovery/` and cleared, durably, before the first append. Queue entries behind
their queue's end are cleared too, and the slots of the index file in use are computed anew from its
durable entries.

**The pool** (`pool_recovery.py`). The transient pool's buffers outlive every process, but not the
machine. Before a start looks at files, it writes to the log the bytes that append had put into the
pool and commit had not written. RocketMQ's pool is lost with its process.

**Queues and index.** If they hold less than the progress record says, the whole log is dispatched
anew. A recovering RocketMQ skips the records that its newest index file has, but not the last of
them. So after a crash of RocketMQ the keys of that record are in the index twice; `tests/interop`
allows exactly these.
"""
