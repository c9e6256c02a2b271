"""Acknowledgements of consumer groups: ack files below `silomq/groups`, leases in `silomq/pop`.

The registry makes an ack file for each assignment and passes its descriptor to the member, which
maps it. **An acknowledgement is a store to that mapping.** The page cache keeps it even if all
processes are killed at once. RocketMQ keeps offsets in its broker's memory, so a crash replays up
to 5 s of messages.

The registry reads an ack file with read(2) and never maps it: a member could shorten the file under
the mapping. A second file, which the member cannot write, says to which member and queues an ack
file belongs. So a member that writes wrong values damages only its own group's progress in its own
queues.

**Popping.** Members that pop have no queues, so there is no file that one of them alone could
write. What they get is leased to them (`leases.py`), and the registry notes each lease and each
acknowledgement in a journal that it maps (`lease_journal.py`). The page cache keeps that one as
well.
"""
