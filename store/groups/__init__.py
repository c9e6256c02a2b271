"""What members of consumer groups have acknowledged: ack files, below `silomq/groups`.

The registry makes an ack file for each assignment and passes its descriptor to the member, which
maps it. **An acknowledgement is a store to that mapping.** The page cache keeps it whatever is
killed, all processes at once too. RocketMQ keeps offsets in its broker's memory and replays up to 5
s of them.

The registry reads an ack file and never maps it, because a member could shorten the file under the
mapping. Whose file it is, and which queues it speaks of, stands in a second file that the member
cannot write. A member that writes nonsense hurts its own group's progress in its own queues, and
nothing else.
"""
