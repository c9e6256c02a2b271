"""The data source `silomq`: writing rows as messages, each micro-batch exactly once
(docs/spark-sink.md).

Spark calls `write` in its tasks and `commit` on the driver. These processes share nothing but the
results of `write`. Spark repeats a micro-batch after a crash, perhaps with its rows divided
differently. So tasks only check their rows and *stage* them as Arrow files; `commit` publishes
them. The files are in `silomq/sinks` of the store, or in the folder of the option `staging`:

- `<query>.json` is the ledger, which is replaced atomically. It has the last batch that is *done*,
  and the one that was *begun*: its files, the end of the log before it, and the session that
  publishes. A batch is begun only when all its topics are open and all its queues exist. Once
  begun, it is finished from those files; the files of a repetition are removed unread.
- `<query>.lock` allows one publisher at a time, because a process of a dead JVM may still be
  publishing.
- `staged/<query>/` has the tasks' files. Spark does not wait for the tasks of a write that it
  aborts. The folder of a write without a name is renamed before it is removed, so a late task finds
  no folder. In a query, the next batch removes late files.

The UNIQ_KEY of each message is a hash of query and batch, and the row's number. So the log itself
says what was published; delayed messages keep their UNIQ_KEY. A publisher that takes over waits
until the store has ended the dead session, because append has then appended all of its ring. It
scans the log from where it ended before the batch, and sends the rows that are missing.

The ledger does not count published rows: a kill between an append and the ledger's update would
make the count wrong. If clean has removed that part of the log, the sink raises an error, because
it cannot know what was published.
"""
