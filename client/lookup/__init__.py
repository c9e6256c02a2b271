"""Look-ups in a running store: `StoreReader`, with RocketMQ's statuses and limits.

`open_store.py` holds the mapped files, the published index and the lease, and checks arguments.
`store_reader.py` has the look-ups.
"""
