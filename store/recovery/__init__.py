"""Recovery: how a start continues from the files that an earlier run left.

A start first looks, then acts. `look.py` reads files and makes the plan (`plan.py`): what it found,
and what the start will do. It changes no file, and it refuses damage. `apply.py` carries out the
plan. The plan, with the counts of what was done, is the report that `silo status` shows.

**State.** A start reads or opens every file of `config/` and `silomq/` that a process will read or
replace later (`state_files.py`). So a file that cannot be used is one sentence and status 5, not an
actor that dies again and again.

**Where to begin.** The store's progress record (`durable_progress.py`, `silomq/progress`) says what
was durable: `flushed`, `dispatched`, the state of the index. It counts if RocketMQ's `checkpoint`
is still the one that was written with it. Otherwise RocketMQ has run on the store, and its own
files decide (`rocketmq_progress.py`). After its clean stop queues and index are complete. After its
crash dispatch begins at the newest log file whose first record is at least 3 s older than the
checkpoint's times. Index files that were not full and durable are made anew. The work of a start
is bounded by the amount of data that was not durable, not by the size of the store.

**Features of RocketMQ** that this store does not have leave traces (`unsupported.py`). A store with
one is refused before a start makes or changes anything: its messages would be missed, or RocketMQ
would not open the store again.

**After a kill** of all processes even that is not read (`shared_progress.py`). Under full load
gigabytes of the log may not be durable, and to read, sync and dispatch them again takes seconds.
But the kernel still has every page, and the control block still says how far append and reput were.
A start goes on from there, as the successor of a single process does. It dispatches what reput had
not, and leaves to flush what is not durable. Under SYNC_FLUSH that is little, and the start syncs
it before it dispatches: a reader must not see what a power cut could take back. The alternative is
to flush so often that little is not durable. It would load the disk all the time.

Flush writes the progress record first and the checkpoint second. A kill in between leaves the
checkpoint of the slot before. Any other checkpoint is RocketMQ's.

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
machine. The bytes that append had put into the pool and commit had not written belong to the log.
A start writes them there only if the log provably lacks them: RocketMQ has not run, the records
join the log's end without a seam, and every byte in their place is zero or theirs. Otherwise they
are kept in `recovery/`. To trust the control block alone was wrong: RocketMQ may have appended in
that place, and its records would be overwritten. A refused start leaves the pool as it is.

**Missing files** (`log_files.py`). A start knows which files the log must have: from the durable
begin (`log_begin.py`) up to `flushed`, without a gap, each of the length in the settings. It
refuses a log that lacks some, and names each range. The begin has a record of its own, because
clean removes files at the front: without it their loss would look like cleaning. RocketMQ cleans
too, so after RocketMQ only gaps and lengths count. Without the progress record the seals say how
far the log reached.

**Queues and index.** If they hold less than the progress record says, the whole log is dispatched
anew. A recovering RocketMQ skips the records that its newest index file has, but not the last of
them. So after a crash of RocketMQ the keys of that record are in the index twice; `tests/interop`
allows exactly these.
"""
