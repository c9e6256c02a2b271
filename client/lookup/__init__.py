"""Look-ups in a store: `StoreReader`, with RocketMQ's statuses and limits.

`store_reader.py` has the look-ups. It reads through `OpenStore` (a running store: mapped files, the
published index, the lease) or `StoppedStore` (the files of a store that does not run).
"""
