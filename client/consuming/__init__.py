"""Reading queues: `Consumer`, its cursors, and messages as a consumer gets them.

A consumer maps queue files and log files and asks no process for messages. What is mapped keeps its
disk space when its file is removed. So a consumer unmaps old files before it sleeps, and a message
that is kept for long should be copied (`copy.copy`). Files that are no longer written are read
ahead 16 MiB at a time: a fault alone reads 128 KiB and waits for it.

A queue of a deleted topic has no reader. A cursor looks at its slot's `since` before it reads, and
once more when it has opened the queue's folder: the folder may be a new topic's of the same name. A
`Consumer` raises TopicDeleted, a group's member waits until the queue is taken back, and a
`StoreReader` finds the new topic.
"""
