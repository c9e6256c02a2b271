"""The index: a hash table from `topic#key` to offsets of the commit log, one file after the other.

`file.py` owns the format. `published.py` reads the index of a running store up to the count that
reput has published. `rewind.py` takes the index back to a place in the log. Dispatch puts the keys
of every record that it meets, whether the index has them or not. So at a start the index must end
exactly where dispatch begins, also in the middle of a file.

`key_lookup.py` answers look-ups in two ways. The right answer compares topic, key and store time
with the record, and gives each message once. RocketMQ's answer (`rocketmq=True`) compares 31-bit
hashes and whole seconds and stops after a number of entries; it is there to compare stores with.
"""
