"""The processes of a store, one file each: set-up, the policy in `run`, teardown.

ARCHITECTURE.md has the table of processes: what each one writes, what wakes it, and what happens
when it is killed.

`actor.py` is what they share: life cycle, heartbeat, signals. A process that is killed is replaced
at once. Its successor's `setup` takes over; when it returns, the process counts as ready.

**Who waits awake.** With two cores three spinning processes would starve each other. A producer
spins 20 us for a result. Append spins 200 us before it sleeps, which is longer than a producer
takes to wake up, and offers its core from 20 us on. With a shorter spin, producer and append wake
each other in turn, and a message takes 60 us instead of 3. Flush never spins. Reput spins
`reput_spin_us` only after it has woken a reader; above 32,000 messages a second it naps for 1 ms
instead of being woken thousands of times a second. Reput is SCHED_BATCH, so its wake-up takes no
core from a running process; allocate has nice 10.

**Flush.** An answer to a producer means *appended*: the bytes are in the page cache and survive
every process. *Durable* is one word, `flushed`; under SYNC_FLUSH a client waits for it as well, so
one sync serves all who wait. A failed sync sets `flush_error`: append answers SERVICE_NOT_AVAILABLE
from then on, and no sync is tried again, because the kernel may have dropped the pages. A thread
beside the log's syncs queues and index. Once a second it syncs queues with
`flush_consume_queue_least_pages` of new entries. A full round syncs all queues and the index (more
than 64 queues by one `syncfs`) and then writes the progress record. It comes at the thorough
interval, after half a million entries or 256 MiB of log, or after two seconds without a message. It
does not come each second, because keys hit the index's slots at random. At 10,000 messages a second
each round would write nearly all of the 20 MB of slots for 200 KB of entries.

**Allocate** keeps `allocate_ahead_files` commit-log files ahead of append: space taken, populated,
locked in memory as far as the limit allows.

**Commit and the pool.** With `transient_store_pool_enable` append writes into buffers in shared
memory. File number n lies in buffer n modulo their number. A buffer is free for a file when
`committed` has passed the end of the file before it in the same buffer; so no list of free buffers
is needed. Reput and flush follow `committed` then. Append waits, and refuses nothing, when commit
is behind.
"""
