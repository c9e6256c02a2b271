"""transactions: obeys the decisions about transactions, and asks the producers that make none.

It is the only writer of committed messages, of op records, of halves that ask again, and of halves
that are given up. It sends them through a ring of its own. So whether a transaction is committed
twice is decided in one place. It sleeps on the arrival words of the half queue and of the queue of
decisions until the earliest check.

`store/transactions` says what the records look like, and why a kill commits nothing twice.
"""
