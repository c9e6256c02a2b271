"""Memory shared by processes: mappings, words, the control block, rings, the transient pool.

**One writer for each word.** Every shared word has exactly one process that may store to it; the
layout tables name it. Words with different writers lie on different cache lines. So no lock is
needed, and a killed process leaves no lock behind.

**Publish last.** A writer fills the body first and then stores the position with release order. A
reader loads the position with acquire order and reads only bytes below it. Both places in the code
carry the same tag in a comment (`SYNC: ring-head publish` and `SYNC: ring-head observe`), and
`tests/tidy/test_sync_tags.py` checks that tags come in pairs.

**Sleeping on a position.** A process that wants to sleep sets its `asleep` word, fences, and looks
at the position once more. Then it sleeps in the kernel on the position itself (a futex). A writer
publishes, fences, and makes the system call for a wake-up only if `asleep` is set. After each
wake-up a process reads the words again. Every wait ends by itself within a second, because
heartbeats need it: an idle store wakes each process once a second.

**Clients wake append through an eventfd.** Append cannot sleep on one word, because each ring has a
`head` of its own. So each session has an eventfd beside its ring. Append sleeps in `epoll_wait`
over all of them, and a producer that sees `append_asleep` writes to its own. The kernel counts the
writes, so no wake-up is lost.

`FUTEX_WAIT` needs no write access. So producers can wait for results on `tail` of their ring, for
durability on `flushed`, and consumers for messages on arrival words.

**Session bells.** A client can also sleep in one epoll, for everything at once: its session has a
bell of its own then (`bell.py`). Append, reput, flush and the registry ring it by sending a byte to
a socket, after they have published. A session without a bell costs them one branch: append looks
whether the ring that it has answered has a bell, the others whether there is any.

**Watched arrival words.** A wake-up is a system call, and among 40,000 queues nearly every message
would cost one. A consumer asks the registry to watch its queues before it looks at their arrival
words. Reput changes every arrival word and wakes only the watched ones.

**What a client may write.** The only memory that a client can write is its ring (`ring.py`), its
bell page (`bell.py`), its board (`board.py`), its page of reads (`reads.py`), and an ack file
(`store/groups/ack_file.py`). No process of the store reads a board. Append
trusts nothing in a ring. It takes the capacity from the registry, reads each frame's header once,
and checks positions before it uses them. It checks each record in its own copy. An invalid record
is answered with a status. A ring whose head or frames are invalid is closed, and its session with
it. Other sessions are not affected.
"""
