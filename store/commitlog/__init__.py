"""The commit log: its files, the append and scan kernels, the search for its end, and seals.

One log takes the messages of all topics. A *frame* in a producer's ring holds one or more records
of one queue. They are final but for three fields that append fills in: queue offset, physical
offset, store time. For each batch, the append kernel (`_append.pyx`)

1. copies the records behind `wrote` and checks the copy, because a client may change its ring at
   any time. It checks lengths, magic, flags, UTF-8, topic and queue against the granted slot,
   BODYCRC over the body, and CRC-32C over all the rest;
2. fills in offsets and time, and moves the queue's next offset in the topic table, with an undo
   mark;
3. writes each frame's result into the ring;
4. publishes `wrote`;
5. publishes each ring's `tail`, and wakes the processes that sleep.

**Fair turns.** A batch ends after `append_batch_bytes` of frames, refused ones included. Rings take
turns within it (`turns.h`): users share the log's bytes evenly, and so do the rings of a user. A
ring whose producer waits for each answer is served first, in a batch of its own. So it waits for
the batch that is being appended, and not for all that others have published. Plain turns of so many
bytes a ring (deficit round robin) share the bytes as evenly, but let such a ring wait for a turn of
each of the others.

A record may name light queues (LMQ; `light.h`). Append fills in its offsets there too, and moves
the next offset of each of these queues, with the same undo marks. A producer leaves room for 19
digits each. A record that has such offsets otherwise is refused: dispatch believes them. To find
one costs append a few nanoseconds: it compares the properties, 16 bytes at a time, with the end of
the property's name.

No process reads the log behind `wrote`, and a producer trusts a result only below `tail`. So append
can be killed between any two steps, and each message exists exactly once. The next append

- **rolls back** queue offsets that the unpublished batch has moved. Each queue's entry carries
  `previous` and `mark`, the value of `wrote` when its last batch began. `mark == wrote` means that
  the batch was never published, so `next` becomes `previous`;
- **clears behind `wrote`** the bytes that the unpublished batch may have left, so that no later
  scan of the log finds them;
- **settles every ring** before it appends anything. Frames are answered in order. So all frames
  from `tail` up to the last one whose stored result lies below `wrote` were answered, refused
  frames among them; they are only acknowledged. The results of the later frames are erased.
  Otherwise a stale result could fall below `wrote` once other frames have moved it.

All rings must be settled before the first append, so the supervisor keeps descriptors of them all.
With the undo marks, a restart costs one pass over the topic table (milliseconds for 40,000 queues)
and not a pass over the log. Tests kill append between any two steps (`tests/crash`).

**Ahead of append.** The allocate process makes a file shortly before append needs it (`ahead.py`).
It begins when the rest of the log has less than the window, or would be used up in four times the
time that the slowest of the last files took. All space of a file is taken, so no write finds the
disk full. The pages of a *window* ahead of append are populated and locked (`warm_window.py`): 128
MiB, or what the greatest rate of the last minutes would write in eight seconds. To make and warm
whole files ahead would take 3 GiB of memory from a store with one message, and seconds of its first
start.

The window consists of chunks of 2 MiB. A chunk that append has filled is unmapped, which also
unlocks it: readers want it in the page cache, not locked. Append wakes allocate once for every 16
MiB. If append outruns the window, it faults in the pages itself, and allocate meets it in the next
chunk. If append is at the end of the last file, it waits for the next one. A new allocate maps the
window anew, from append's position on.

Allocate rests between chunks, unless append is close behind (`ahead.py`). A chunk of new memory
keeps a core for some milliseconds, on some virtual machines for many: fresh pages come from the
host at 0.5 GB/s there. A whole file's worth in a row made producers wait up to 150 ms.

Under SYNC_FLUSH the zeros of the files that exist are made durable ahead, once, but outside the
window neither mapped nor locked. A sync of records in such a place changes no metadata. To prepare
chunk by chunk under load would take a quarter of the rate of durable messages. The zeros go to the
disk in pieces of 512 KiB, because a sync of records waits for what the disk was given before.

**Staging.** Under SYNC_FLUSH append makes a batch in memory of its own, and writes it to the file
with one call just before step 4 (`staging.h`). Each sync makes the pages that it writes read-only
in every mapping, and interrupts the other cores for each of them. Without a sync for each batch it
is cheaper to store in the mapped file.

Append maps warmed pages in steps of 2 MiB ahead of its position, while it is idle or between
batches. A fault for each page would cost a sixth of the append rate at 1 KB.

A clean stop makes warmed pages count as never written (`CommitLog.unwrite_from`). Otherwise the
next start would read up to a file of zeros from the disk, in search of torn records.

`log_end.py` decides about the bytes behind the last good record: a torn end is cut off, damage is
refused. A full file gets a *seal* (`seals.py`): its CRC-32C, and its first and last offset and
store time.
"""
