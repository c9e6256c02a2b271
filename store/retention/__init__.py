"""Retention: which files expire, and their removal. `judgement.py` and `rules.py` decide over plain
values, `removal.py` removes files, `consumption.py` looks at what groups have consumed, and
`topic_retention.py` at topics that have limits of their own.

The triggers are RocketMQ's: the hours of `delete_when`, the use of the disk, or `silo clean` (which
allows 20 runs). So are the rules: a commit-log file expires when it was not written to for
`file_reserved_time_h`, or at once above `disk_space_clean_forcibly_ratio`. A run removes the oldest
files, at most `delete_file_batch_max`, up to the first that must stay. These stay:

- the file with the log's last byte, so that the end of the log is never lost;
- all files behind the *durable* `dispatched` (that of the progress record, not the word in shared
  memory), because a start after a power cut reads from there. So a queue file is removed only if
  the next file begins with an entry below that offset, and an index file only if it is older than
  the one in the record;
- a file that a reader holds by a lease, for a limited time;
- files from the first delayed message on that waits for its delivery, or whose delivery a power cut
  could still take back (`schedule_floor`). RocketMQ removes such a record and loses the message. If
  the disk is so full that files are removed before they expire, this rule does not hold, and the
  log says which messages were lost.

**Two limits that RocketMQ does not have**, both off by default. `file_reserved_size`: the oldest
files go at any hour while so many bytes follow them. `file_reserved_unconsumed_h`: an expired file
stays while a consumer group has not consumed it, until it was last written so long ago. So a group
that nobody uses any more cannot fill the disk: the bound ends its claim, and a disk above
`disk_space_clean_forcibly_ratio` ends all such claims at once. No file's form changes by them.

**Limits of single topics** (`topic_limits.py`, `topic_retention.py`) are off by default, too. One
log holds all topics, so a topic's messages expire file by file. A topic's shorter limit hides them:
clean moves the begins of its queues, again after each start, because a start finds the begins by
the log's files. A file goes before the store's time once it has only such messages. A topic's
longer limit holds the files in which it has messages, up to `disk_space_clean_forcibly_ratio`.
Queue entries stay as long as the log's files do, so nothing that checks or rebuilds a store has to
know these limits, and RocketMQ shows what was hidden.

**Order:** `min_offset`, then each queue's `min_offset`, then the commit-log files and a sync of
their folder, then queue files and index files. A reader loads its queue's minimum before it opens a
file, and again if the file is missing. So it either reads, or knows how many messages it has
missed. A killed clean leaves files below `min_offset`, which the next one removes. After a crash of
the whole store the first existing file is the minimum. All queue files that lead to its records
exist, because they are removed only after the sync.

**Leases.** A lease is a word for each session in the topic table: the lowest log offset that the
session still reads. The registry writes it on request. RocketMQ counts references instead; a count
in shared memory would be wrong after a reader is killed, while a lease ends with its session's
connection. A consumer asks for a lease when it reads in an old file (one request for each file) and
returns it before it sleeps. A held file, and all that are due with it, stay for
`destroy_mapped_file_interval_forcibly_ms` from the time when they were due. So a reader that moves
from one file to the next cannot hold them for longer. Mapped files stay readable after their
removal.

**Disks.** Each disk has its own flag (RocketMQ's bits 16 and 64), set above the warning ratio and
cleared at or below the forcible one. RocketMQ's single flag is cleared when the log's disk has
space, even if the queues' disk is full. Clean may set a flag too late. Then the disk is really
full, and allocate, reput and the registry answer with a status or try again. The space of every
mapped byte is allocated, so no process gets a SIGBUS.
"""
