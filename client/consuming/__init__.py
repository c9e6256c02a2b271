"""Reading queues: `Consumer`, its cursors, and messages as a consumer gets them.

A consumer maps queue files and log files, and asks no process for messages. A mapped file keeps its
disk space when it is removed. So a consumer unmaps old files before it sleeps, and a message that
is kept for long should be copied (`copy.copy`). Files that are no longer written are read ahead 16
MiB at a time. A page fault alone would read 128 KiB, and the consumer would wait for each.

A cursor must not read the queue of a deleted topic. It checks `since` in the topic table before it
reads, and again after it has opened the queue's folder, because the folder may belong to a new
topic of the same name. Then a `Consumer` raises TopicDeleted, a member of a group waits until the
queue is revoked, and a `StoreReader` finds the new topic.
"""
