"""The data source `silomq`: writing rows as messages, each micro-batch exactly once
(docs/spark-sink.md).

Spark calls `write` in its tasks and `commit` on the driver. These processes share nothing but what
`write` returns, and Spark repeats a micro-batch after a crash, perhaps with its rows divided
differently. So tasks only check their rows and *stage* them as Arrow files; `commit` publishes. The
place is `silomq/sinks` of the store, or the option `staging`:

- `<query>.json`, the ledger, replaced atomically: the last batch that is *done*, and the one that
  was *begun*, with its files, the end of the log before it, and the session that publishes. A batch
  is begun only when all its topics are open and all its queues exist. Once begun, it is finished
  from those files; a repetition's own files are removed unread.
- `<query>.lock`: one publisher at a time, because the process of a dead JVM may still be
  publishing.
- `staged/<query>/`: the tasks' files. Spark does not wait for the tasks of a write that it gives
  up. The folder of a write without a name is renamed away first, so a late task finds no folder; in
  a query the next batch removes late files.
- The UNIQ_KEY of each message is a hash of query and batch, and the row's number: the log itself
  says what was published. A publisher that takes over waits until the dead session is gone from the
  store: append has then appended all of its ring. It scans the log from where it ended before the
  batch, and sends the rows that are missing. Delayed messages keep their UNIQ_KEY, waiting and
  delivered.

The log has the keys, and the ledger has no count of rows, because no order between a store's append
and a ledger's file could survive a kill between them. If cleaning has removed the log from that
place on, the sink says that it cannot tell, and does not guess.
"""
