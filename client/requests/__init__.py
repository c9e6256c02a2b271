"""Requests to consumers, and the wait for their replies: `RequestProducer`, `ReplyFuture`.

A request is a message like any other, with properties that say who waits for a reply, and for how
long (`store/record/requests.py`). Whoever consumes it replies with `Producer.reply`. The reply goes
into a queue of rmq_sys_silomq_replies, which the requester reads.

- **One topic for all requesters, and few queues.** Nothing has to be made for a requester or
  cleaned after it, however it ends. Replies go away with the log. The price: a requester reads the
  replies to others whose ids lead to the same queue.
- **A position before a question.** The requester opens its queue at the end before it sends its
  first request. So no reply can come before it looks.
- **One thread a producer.** It reads replies, resolves futures and ends those that wait too long.
  When the store is restarted, it goes on at the queue offset that it had reached.
- **Repliers on the network.** The broker puts a reply to a client of the store into the same
  queues. A reply to a client on the network goes into a queue of its own, which the broker follows
  (`broker/groups/local_replies.py`).

A reply that is late, or the second to a request, is not matched and dropped.
"""
