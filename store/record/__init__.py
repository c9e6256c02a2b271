"""One message's bytes: the record, its properties, its ids and checksums.

`format.py` owns the table of a record's fields. `record.h` has the same offsets for compiled code,
and a test compares the two. `properties.py` owns the string of properties at a record's end.
`ids.py` owns the ids: the *offset message id* is a place in the log, the `message_id` is the
client's UNIQ_KEY. `shm/checksum.h` has CRC-32 and CRC-32C with the CPU's instructions.
`compression.py` decompresses bodies that RocketMQ's producers compressed. The store itself never
does.

The store host is a numeric address, IPv4 or IPv6; a record of an IPv6 host is 12 bytes longer, and
its offset message id has 56 digits. Host names are refused: the address of a name may change, and
ids would then name other hosts. An IPv4 address written as IPv6 becomes IPv4, as in Java.

A record carries BODYCRC, RocketMQ's checksum of its body. RocketMQ's optional checksum of the whole
record (`__CRC32#`, `enabled_append_prop_crc`) is supported and off by default, because it costs a
tenth of the append rate or more.
"""
