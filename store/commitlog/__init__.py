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

The allocate process makes files ahead of need: it takes the space, populates the pages, and locks
them in memory. Append maps warmed pages in steps of 8 MiB ahead of its position, while it is idle
or between batches. A fault for each page would cost a sixth of the append rate at 1 KB.

`log_end.py` decides about the bytes behind the last good record: a torn end is cut off, damage is
refused. A full file gets a *seal* (`seals.py`): its CRC-32C, and its first and last offset and
store time.
"""
