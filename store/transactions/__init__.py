"""Transactions: half messages, decisions about them, op records, and the progress of it all.

**Records.** A half message waits in RMQ_SYS_TRANS_HALF_TOPIC (`half.py`). When its transaction is
committed, a final record goes into the message's own topic. Op records say which halves are done
(`ops.py`). All of that is RocketMQ's, byte for byte, so a store may change hands in the middle of
a transaction. A producer's decision is a record of a topic of ours (`decisions.py`): RocketMQ has
only a request for it, which is lost if its broker dies. If RocketMQ gets the store before a
decision was obeyed, it asks the producers.

**Checks.** When nobody has decided in time, the half is put once more at the end of its queue, with
a greater TRANSACTION_CHECK_TIMES, as in RocketMQ. The producers of its group read the half topic,
and see it. An op record names the half before it. So all halves that no op record names are open,
and a transaction has one of them, or two after a kill. They have the same `identity`. A decision
may name any half of a transaction, also one that a check has replaced.

**Exactly once.** Only the process `transactions` writes final and op records, so that whether a
transaction has ended is decided in one place, `book.py`. In each turn it

1. puts final records for decisions to commit, and waits until append has answered;
2. puts op records for all halves that are done, and waits again;
3. publishes its progress (`progress.py`): the queue offsets up to which halves, op records and
   decisions are dealt with, and `scan_from`. Without step 2 it publishes none.

A second decision about the same transaction finds none that is open, and moves nothing. A killed
process leaves final records without an op record behind `scan_from` only. The next process waits
until append has answered every frame of the ring, and until dispatch has come to the log's end. It
reads the op records and halves that the progress does not count. Then it scans the log from
`scan_from` for records that lead back to a half that is still open (`_finals.pyx`), and puts the op
records that are missing.

**Nobody is held up.** A decision that cannot be obeyed now, because its topic cannot be made, waits
by itself, and the progress of decisions stays before it. Garbage in the queues is read in portions.
Any client may forge decisions by the million, and they lie in one queue with all others. So what is
about no open transaction is refused from the log's bytes (`_parts.screen`), as fast as append
stores it. What the screen lets through has the `token` of an open transaction, a hash of its key,
birth and checksum. Only then is a body hashed, once for each of the last 65,536 halves so named.
A half that would hold the progress back for long is put once more without a check. So a start reads
a bounded number of halves, and memory holds the open transactions and no more.

**RocketMQ.** It puts a half that is not to be checked yet once more too, as a copy
(TRAN_PREPARED_QUEUE_OFFSET). An op record that names the half before it then ends the copy as well.
So a copy is first of all put once more, as a half without that property.

**Power cuts.** The durable slot of the progress is never ahead of the durable log. A cut may take
back a final record and its op record. Then the transaction is open again, and so is its decision,
if that was taken back too. Otherwise the durable progress does not count the decision, and it is
obeyed again.

**Retention.** `trans_floor` is the log offset of the first half that is not done. Clean keeps it,
unless the disk is full.
"""
