"""Reading messages: RocketMQ's getMessage over plain values, a running store's files, and columns.

Two kernels walk the same queue entries (`store/consumequeue/entries.h`). One makes `MessageView`s
(client/consuming): a view is a place in a mapped file, and takes its record apart when it is asked.
The other (`_columns.pyx`, `columns.h`, `arrow_buffers.h`) fills Arrow's buffers without a Python
object for a message. Both check each length before they follow it.

**Columns.** Fresh pages cost a batch as much as filling them, so the blocks of batches that are
gone are used again, up to 128 MiB (`blocks.h`). A batch of a few MiB stays in the CPU's caches.
Thirty buffers that grow by turns leave the CPU's prefetcher no stream to follow. So the kernel
takes 128 records at a time: it copies their bodies in the order of memory, and then fills the other
columns one after the other from what is in the caches.

`columns.LogScan` reads log files into columns without a queue, from any place to any place: several
readers can share a file, each taking the records that begin in its part.
"""
