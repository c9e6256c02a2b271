"""Reading queues: `Consumer`, its cursors, and messages as a consumer gets them.

A consumer maps queue files and log files, and asks no process for messages. A mapped file keeps its
disk space when it is removed. So a consumer unmaps old files before it sleeps, and a message that
is kept for long should be copied (`copy.copy`). Files that are no longer written are read ahead 16
MiB at a time. A page fault alone would read 128 KiB, and the consumer would wait for each.

A cursor must not read the queue of a deleted topic. It checks `since` in the topic table before it
reads, and again after it has opened the queue's folder, because the folder may belong to a new
topic of the same name. Then a `Consumer` raises TopicDeleted, a member of a group waits until the
queue is revoked, and a `StoreReader` finds the new topic.

**What is mapped.** A cursor is a `MappedQueue` (`_mapped_queue.pyx`): one file of the queue and one
of the log. Most reads need no more, and no Python. They must not miss what the cursor looks at. So
such a read is refused when the topic was deleted, when messages were removed unread, and when
append has gone on to another file: then the one that is mapped needs a lease. In a store with
declared holes every read is the cursor's own.

**Declared holes** (`store/commitlog/holes.py`) are raised as CorruptRange and then passed. A cursor
stays before a hole until its caller hands the error on, so a batch that was read before the hole
does not swallow it. It looks for holes only in stores that have some, by two binary searches over
the entries that it is about to read.

**Compressed bodies.** `MessageView.body` is decompressed, as in RocketMQ's clients, and `raw_body`
is what is stored. `sys_flag` stays as it is stored: it says what `raw_body` is, and a message that
is sent back needs both. (RocketMQ's decoder clears the bit since 5.x, and keeps it in 4.9.) A view
keeps no decompressed body: it would hold up to 64 MiB for as long as the view lives.

A body that does not decompress must not stop the messages behind it. So `body` raises BadBody only
when it is asked for. In a column of Arrow it is null, with a warning: an error would stop a job at
each such message, and bytes of another kind would be taken for the body. RocketMQ's client drops
such a message.
"""
