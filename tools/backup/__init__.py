"""Backups: a consistent copy of a store that runs, in a folder that is a store itself.

A folder of backups holds one folder for each, named by the time (UTC) at which it began. Such a
folder is a store that was stopped in order at some offset E of its log, so `silo verify`, `silo
restore`, `silo serve` and RocketMQ take it like any other stopped store.

**The end.** Everything that was answered before the backup began is in it. The offset E is chosen
late:

1. Copy the progress of groups, of delayed messages and of transactions.
2. Wait until reput has passed the `wrote` of that moment, and take its published progress: E is its
   `dispatched`.
3. Copy topics and deletions.
4. Link or copy the log below E, the queue entries of records below E, and the index entries that
   the progress counts.

So no progress is ahead of the log
that lies beside it. Progress that is behind it is what a crash leaves as well: schedule and
transactions recognise what they have done, and groups read some messages again.

**What may be linked.** Only files of the log that lie wholly below `flushed`. No process writes to
them again, and no start cuts them off. The last file, queues and the index are copied: append,
dispatch after damage, and a start after a power cut write there. `silo repair`, and a start that
cuts off a torn end, first make the file their own (`own_file`), so they do not change a backup
either. RocketMQ does not know of links: if it recovers from a crash on the source and finds damage
below `flushed`, it appends there. A clone, which needs btrfs or XFS, and a copy are safe from that.

**Cleaning meanwhile** removes files at the front. The log's begin is read last, and the backup
begins there. Deletion of a topic removes queues in the middle: if `silomq/deleted` has changed, the
round is done again. Links that exist already make that cheap.

**A backup that was cut off** lies in a folder `unfinished-...` with the mark `unfinished-backup`,
which a start, `silo verify` and look-ups refuse. When all is durable, a start's own look at the
copy must say that it is clean and ends at E. Then the mark goes, and the folder gets its name. The
list of its files with their sizes (`backup.json`) shows `silo restore` whether a copy of a backup
is whole.

**The next backup** takes over files that have not changed: a full file of the log if the seals
agree (its CRC-32C), others if their bytes are the same.
"""
