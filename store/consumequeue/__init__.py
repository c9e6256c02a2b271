"""Consume queues: one folder for each queue, with an entry of 20 bytes for each message.

Files have RocketMQ's length from the start and are sparse. Reput writes through *windows*: mapped
multiples of 20,480 bytes (whole entries in whole pages), whose space is taken before they are
mapped. A window starts small and grows with its queue's traffic, so 40,000 queues do not need 240
GB. No descriptor stays open. `vm.max_map_count` bounds the number of windows: the oldest are
unmapped.

A new file is made as `consumequeue/silomq-new` and renamed once it is whole, because RocketMQ does
not load a queue that has a file of another length.

The place of an entry is its queue offset x 20, so writing an entry is idempotent.
"""
