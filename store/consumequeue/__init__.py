"""Consume queues: 20 bytes for each message of a queue, one folder a queue.

Files have RocketMQ's length from the start and are sparse. Reput writes through *windows*:
multiples of 20,480 bytes (whole entries in whole pages), whose space is taken before they are
mapped. A window starts small and grows with its queue's traffic, so 40,000 queues do not need 240
GB. No descriptor stays open. `vm.max_map_count` bounds the number of windows: the oldest are
unmapped.

A new file is made as `consumequeue/silomq-new` and gets its name last, because RocketMQ does not
load a queue that has a file of another length.

The place of an entry is its queue offset x 20. Writing an entry a second time changes nothing.
"""
