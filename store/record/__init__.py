"""One message's bytes: the record, its properties, its ids and checksums.

`format.py` owns the table of a record's fields. `record.h` has the same offsets for compiled code,
and a test compares the two. `properties.py` owns the string of properties at a record's end.
`ids.py` owns the ids: the *offset message id* is a place in the log, the `message_id` is the
client's UNIQ_KEY. `checksum.h` has CRC-32 and CRC-32C with the CPU's instructions.

A record carries BODYCRC, RocketMQ's checksum of its body. RocketMQ's optional checksum of the whole
record (`__CRC32#`, `enabled_append_prop_crc`) is supported and off by default, because it costs a
tenth of the append rate or more.
"""
