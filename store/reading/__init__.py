"""Reading messages: RocketMQ's getMessage over plain values, a running store's files, and columns.

Two kernels read the same queue entries (`store/consumequeue/entries.h`). One makes `MessageView`s
(client/consuming): a view is a place in a mapped file, and parses its record when a field is read.
The other (`_columns.pyx`, `columns.h`, `arrow_buffers.h`) fills Arrow's buffers without a Python
object for each message. Both check each length before they use it.

**Columns.** Fresh pages cost a batch as much time as filling them. So the blocks of dead batches
are used again, up to 128 MiB (`blocks.h`). A batch of a few MiB stays in the CPU's caches. If
thirty buffers grew in turn, the CPU's prefetcher would find no stream to follow. So the kernel
takes 128 records at a time. It copies their bodies in the order of memory, and then fills the other
columns one by one from records that are in the caches.

Before that it loads the lines of these records that it will look at (`touch.h`). The CPU waits for
ten of them at a time, as long as none says where the next one is. If bodies are only pointed at, a
record of 1 KiB has four such lines.

`columns.LogScan` reads log files into columns without a queue, from any offset to any other.
Several readers can share a file: each reads the records that begin in its part.
"""
