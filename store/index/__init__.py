"""The index: a hash table from `topic#key` to offsets of the commit log, in a sequence of files.

`file.py` owns the format. `published.py` reads the index of a running store up to the count that
reput has published. `rewind.py` computes the state of the index at an earlier offset of the log.
Dispatch adds the keys of every record that it reads, even if the index has them. So at a start the
index must end exactly where dispatch begins, also in the middle of a file.

`key_lookup.py` has two look-ups. The exact one compares topic, key and store time with the record,
and returns each message once. RocketMQ's (`rocketmq=True`) compares 31-bit hashes and whole
seconds, and stops after a number of entries; it exists to compare stores.
"""
