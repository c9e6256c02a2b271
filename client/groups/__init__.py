"""Reading as a member of a consumer group: `GroupConsumer`, `Listener`, and subscriptions.

A member reads its queues like any consumer. It asks the registry when the assignment of queues
changes, and never for a message. An acknowledgement is a store to the member's ack file
(`store/groups`). A member cannot read further than one window beyond its oldest message that is not
acknowledged.

`poll_arrow` selects each queue's rows by its topic's tags codes. Then it drops rows whose tags only
share a hash, rows that an SQL expression does not match, and rows that were acknowledged before. A
batch is acknowledged as a whole: until then the queue's offset stays at the batch's beginning.

A message that a consumer could not process is sent back (`retry.py`, RocketMQ's
consumerSendMsgBack). It is stored again with a delay, to come back through `%RETRY%group`, and then
it is acknowledged. If the process dies between these two steps, the message comes twice: at least
once is promised, because the two steps write different files.
"""
