"""Reading as a member of a consumer group: `GroupConsumer`, `Listener`, what they subscribe to.

A member reads the queues it was given like any consumer: the registry is asked when queues change
hands, and not for a message. An acknowledgement is a store to the member's ack file
(`store/groups`). A member cannot be further ahead than a window of its oldest message that is not
acknowledged.

`poll_arrow` takes each queue's rows by its topic's tags codes, then drops rows whose tags only
share a hash, that an SQL expression does not want, or that were acknowledged before. A batch is
acknowledged as a whole: the queue's offset stays at the batch's beginning until then.

A message that a consumer could not process is sent back (`retry.py`, RocketMQ's
consumerSendMsgBack): it is stored again with a delay and comes back through `%RETRY%group`, and is
acknowledged then. If the process dies between the two steps, the message comes again: a send and an
acknowledgement in two files give at least once.
"""
