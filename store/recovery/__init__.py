"""What a start does with what an earlier run left, and the records that tell it.

A start looks first and then does. `look.py` reads files and makes the plan (`plan.py`) that says
what was found and what will be done. It changes nothing, and it refuses damage. `apply.py` does
what the plan says. The plan and the counts of the doing are the report that `silo status` shows.

**Where to begin.** Our progress record (`durable_progress.py`, `silomq/progress`) says what was
durable: `flushed`, `dispatched`, the state of the index. It counts if RocketMQ's `checkpoint` is
still the one that was written with it. Otherwise RocketMQ had the store, and its files tell
(`rocketmq_progress.py`). After a clean stop queues and index are complete. After a crash the newest
log file counts that begins 3 s before what its checkpoint calls durable, and index files that were
not full and durable are made anew. The work of a start is bounded by what was not durable, not by
the size of the store.

**The log's end.** The log is scanned from `flushed`. A bad end is *torn* if nothing good follows
it, or if the machine was started since and what follows was not durable: it is cut off and kept in
`recovery/`. Good records behind bad bytes are otherwise *damage*: the store says what is where and
does not start. RocketMQ does not erase what it cuts off; such records are older than those before
the end, and do not count.

**After a power cut** (`power_cut.py`) pages are on the disk in any combination. Behind the first
lost record there may be whole ones, also in later files; behind a queue's last entry there may be
entries of records that are gone. A later start could take them for its own. A crash of processes
leaves no such thing, because the page cache outlives them. `silomq/boot` holds the kernel's boot id
and tells the two apart. After another boot the log ends at its first lost record; what lies behind
goes to `recovery/` and is cleared, durably, before anything is appended. Queue entries behind their
queue's end go too, and the chains of the index file in use are linked anew from its durable
entries.

**The pool** (`pool_recovery.py`). The transient pool's buffers outlive every process, but not the
machine. What append had written and commit had not is put into the log before a start looks at
files. RocketMQ's pool is lost with its process.

**Queues and index.** If they hold less than the progress record counts on, everything is dispatched
anew. RocketMQ passes over what its newest index file knows, but not over the last record of it:
after a crash of RocketMQ the keys of that one record are in the index twice. `tests/interop` allows
exactly these.
"""
