"""Look-ups in a running store: `StoreReader`, with RocketMQ's statuses and limits.

`open_store.py` is what it has open: the mapped files, the published index, leases, and the checks
of questions. `store_reader.py` answers.
"""
