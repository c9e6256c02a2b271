"""Consume queues: one folder for each queue, with an entry of 20 bytes for each message.

Files have RocketMQ's length from the start and are sparse. Reput writes through *windows*: mapped
multiples of 20,480 bytes (whole entries in whole pages), whose space is taken before they are
mapped. A window starts small, and each further one of its queue is four times as large, so 40,000
queues do not need 240 GB. Only windows of 1.3 MB and more are faulted in at once: in the others
40,000 queues would take memory for entries that may never come. No descriptor stays open.
`vm.max_map_count` bounds the number of windows: the oldest are unmapped.

A new file is made as `consumequeue/silomq-new` and renamed once it is whole, because RocketMQ does
not load a queue that has a file of another length.

**Counting at a start.** A start asks every queue how many entries it has. It reads the first page
of the queue's last file, and further pages only if that one is full. A binary search over the whole
file would read holes, and each such page takes memory: 6 GB for 80,000 short queues.
`_entry_counts.pyx` asks the kernel (`store/disk/folders.h`), and threads hide the latency of a cold
disk. A record of all queues' ends would save these reads after a clean stop, but not after a kill.
It would also hide queue files that are gone.

RocketMQ's entries may lead to consumequeue_ext instead of having the hash of the tags. Such an
entry passes every tag filter, and the tags are compared in the record. So the extension files,
which RocketMQ itself calls weakly reliable, need not be read.

The place of an entry is its queue offset x 20, so writing an entry is idempotent.
"""
