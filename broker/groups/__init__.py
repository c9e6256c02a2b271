"""Who is connected to the broker: producers and consumers by group, their locks, and what waits for
them.

A consumer group is what its members' last heart-beats say. As in RocketMQ its subscriptions belong
to the group: one with a newer version replaces the older one, and a topic that the last heart-beat
does not name is removed. A connection that ends leaves its groups at once, and the others are told
by NOTIFY_CONSUMER_IDS_CHANGED. RocketMQ's clients divide the queues among themselves. The store
learns who they are, for the groups that have members there too (`broker/link/shared_groups.py`).

Nothing of this is kept: clients say it again after a restart of the broker. What must be kept, the
progress of groups, is with the store (`broker/link/progress.py`).
"""
