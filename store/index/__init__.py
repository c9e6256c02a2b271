"""The index: a hash table from `topic#key` to offsets of the commit log, in a sequence of files.

`file.py` owns the format. `published.py` reads the index of a running store up to the count that
reput has published. `rewind.py` computes the state of the index at an earlier offset of the log.
Dispatch adds the keys of every record that it reads, even if the index has them. So at a start the
index must end exactly where dispatch begins, also in the middle of a file.

A file has its whole size from the start, but is sparse: 420 MB for a few messages would be too
much. The space of header and slots is taken when the file is made or opened for writing, that of
entries 16 MiB ahead of the last one. So a full disk is an error of dispatch, and never a SIGBUS.

`key_lookup.py` has two look-ups. The exact one compares topic, key and store time with the record,
and returns each message once. RocketMQ's (`rocketmq=True`) compares 31-bit hashes and whole
seconds, and stops after a number of entries; it exists to compare stores.
"""
