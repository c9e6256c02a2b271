"""The processes of a store, one file each: set-up, the policy in `run`, teardown.

ARCHITECTURE.md has the table of processes: what each one writes, what wakes it, and what happens
when it is killed.

`actor.py` is what they share: life cycle, heartbeat, signals. The supervisor replaces a process
that is killed at once. The `setup` of the new process takes over the state that the killed one
left. When `setup` returns, the process counts as ready.

**Spinning and sleeping.** On two cores, three spinning processes would starve each other, so each
wait has a bound:

- A producer spins 20 us for a result, then sleeps.
- Append spins `append_spin_us` before it sleeps (under SYNC_FLUSH 200 us), and yields its core from
  20 us on. It sleeps and wakes within its kernel (`store/commitlog/rest.h`), and so does
  reput (`store/dispatch/_follow.pyx`): the Python around it would take longer than the message.
- While append and the producers that send are more than the cores, each turn of a spin yields the
  core. A process that computes takes it for milliseconds: after that the spinner sleeps for some
  time, because whoever is woken takes a core from others (`shm/spin.h`).
- Flush never spins. Under SYNC_FLUSH it wakes producers, yields its core to them, and wakes
  reput last. On less than four cores a producer does not spin for a sync, which needs flush's core.
- Neither append nor reput spins when the last three pauses were longer than the spin: then only
  the core would be kept busy. One short pause has it spin again (`shm/pauses.h`).
- Reput spins `reput_spin_us`, and only after it has woken a reader. Above 32,000 messages a second
  it sleeps 1 ms at a time instead of being woken for each message.
- Reput has the policy SCHED_BATCH, so waking it does not preempt a running process. Allocate has
  nice 10.

**Flush.** An answer to a producer means *appended*: the bytes are in the page cache and survive the
death of every process. *Durable* is one word, `flushed`. Under SYNC_FLUSH a client waits for that
word as well, so one sync serves all waiting clients.

A failed sync sets `flush_error`. From then on append answers SERVICE_NOT_AVAILABLE, and flush tries
no further sync, because the kernel may have dropped the pages that it could not write.

A second thread of flush syncs queues and index. Once a second it syncs the queues that have
`flush_consume_queue_least_pages` of new entries. A full round syncs all queues and the index (more
than 64 queues by one `syncfs`), then writes the progress record. A full round is due at the
thorough interval, after half a million entries or 256 MiB of log, or after two seconds without a
message (`full_rounds.py`). It is not due each second, because keys hit the index's slots at random.
At 10,000 messages a second each round would write nearly all of the 20 MB of slots for 200 KB of
entries. Rounds for entries and bytes take a tenth of the time at most: 40,000 busy queues have a
page each to write, and each round would write the same pages again.

A third thread seals full files. It takes a tenth of a core, because a seal reads a whole file and
nothing waits for it.

**Allocate** makes commit-log files before append needs them, `allocate_ahead_files` at most. It
keeps a window ahead of append in the page cache, and locks it in memory as far as the limit of
locked memory allows (`store/commitlog`). It warms two MiB at a time, yields its core meanwhile,
and rests, unless append is close.

**Commit and the pool.** With `transient_store_pool_enable` append writes into buffers in shared
memory. The file with number n lies in buffer n modulo the number of buffers. A buffer is free for a
file when `committed` has passed the end of the file that used the buffer before. So no list of free
buffers is needed. With a pool, reput and flush follow `committed`. When commit is behind, append
waits and refuses nothing.
"""
