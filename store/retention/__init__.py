"""What expires, and its removal. `rules.py` decides over plain values, `removal.py` removes files.

The triggers are RocketMQ's: the hours of `delete_when`, the use of the disk, or `silo clean` (good
for 20 runs). So are the rules: a commit-log file goes when it was not written to for
`file_reserved_time_h`, or at once above `disk_space_clean_forcibly_ratio`. Files go from the front,
at most `delete_file_batch_max` in a run, up to the first that must stay. These stay:

- the file with the log's last byte: the end of the log is never forgotten;
- everything behind the *durable* `dispatched` (the progress record, not the word in shared memory),
  because a start after a power cut reads from there. So a queue file goes only if the file behind
  it begins with an entry below that offset, and an index file only if it is older than the one the
  record names;
- a file that a reader holds by a lease, for a while;
- files from the first record on that waits for its time (`schedule_floor`). RocketMQ removes such a
  record and loses the message. A disk so full that files go before their time overrides this rule,
  and the log says what was lost.

**Order:** `min_offset`, then each queue's `min_offset`, then the commit-log files and a sync of
their folder, then queue files and index files. A reader looks at its queue's minimum before it
opens a file, and once more if the file is gone: it either reads, or knows how many messages it has
missed. A killed clean leaves files below `min_offset` for the next one. After a crash of the whole
store the first file that is there is the minimum, and nothing that leads to its records is gone,
because queue files go after the sync.

**Leases.** A lease is a word for each session in the topic table: the lowest log offset that the
session still reads. The registry writes it on request. RocketMQ counts references; a count in
shared memory would have to be repaired whenever a reader is killed, and a lease ends with its
session's connection. A consumer asks for one when it reads on in an old file (one request a file)
and gives it back before it sleeps. A held file waits for `destroy_mapped_file_interval_forcibly_ms`
from when it was due, and so do all that are due with it. A reader cannot hold them for longer by
going from one file to the next. What is mapped stays readable after its file is removed.

**Disks.** Each disk has its own flag (RocketMQ's bits 16 and 64), set above the warning ratio and
cleared at or below the forcible one. RocketMQ's single flag forgets a full queue disk when the
log's is well. Clean can set a flag too late; then space runs out for real, and allocate, reput and
the registry answer with a status or try again. No mapped byte is without space, so no process meets
SIGBUS.
"""
