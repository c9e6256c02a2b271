"""Reading as a member of a consumer group: `GroupConsumer`, `Listener`, and subscriptions.

A member reads its queues like any consumer. It asks the registry when the assignment of queues
changes, and never for a message. An acknowledgement is a store to the member's ack file
(`store/groups`). A member cannot read further than one window beyond its oldest message that is not
acknowledged.

**Small loads.** If messages come one at a time, a member is woken for each. The caches of its core
are cold then, and each line of Python costs several times what it costs in a loop. So `poll`, an
iteration and a listener with one thread read in `_quick_turns.pyx`. It looks at the member's words
and at what is mapped, hands messages out, acknowledges and sleeps. All else it leaves to the reader
(`quick_reading.py`). A listener of several threads reads in Python, because each message goes
through a queue to one of them. So does one that is `orderly`: it may have to wait for a message.

Whether its session lives a member asks before a sleep, but not twice within 50 ms
(`client/liveness.py`): if it does not ask, it sleeps for 50 ms at most, and asks then.

`poll_arrow` selects each queue's rows by its topic's tags codes. Then it drops rows whose tags only
share a hash, rows that an SQL expression does not match, and rows that were acknowledged before. A
batch is acknowledged as a whole: until then the queue's offset stays at the batch's beginning.

**In hand.** What a member gets stays handed out until it is acknowledged. While it is, it can be
sent back. With `auto_ack` the next call for messages acknowledges it, and so does the normal end of
a `with` block. An exception does not, and neither does `close`: nobody has said there that the
messages were processed. An iteration reads ahead. Those messages are not acknowledged with the
others, and if it ends early they are read again. (Otherwise a `break` and a `poll` would lose up to
255 messages.) Asynchronous iteration waits in the event loop, so a cancelled task leaves nothing
behind that still reads.

A message that a consumer could not process is sent back (`retry.py`, RocketMQ's
consumerSendMsgBack). It is stored again with a delay, to come back through `%RETRY%group`, and then
it is acknowledged, in the ack file too. If the process dies between these two steps, the message
comes twice: at least once is promised, because the two steps write different files. While it is
being sent, no other thread can acknowledge it, because the sending may fail. A message that cannot
be sent back raises NotHandedOut; an answer of False was easily overlooked, and lost messages.

**A reader that is busy** cannot give back a revoked queue, nor answer at all. For it a thread of
the member tells the store once a second that the process runs (`sign_of_life.py`). A stopped
process says nothing, and loses its queues in about 10 s instead of 60. The thread sleeps on the
member's notice, so it costs nothing while the store asks for nothing. The alternative, a heartbeat
of every member, would wake a thousand idle processes.

A listener is at work until it is stopped: its threads keep it, and the member, alive. Whatever a
callback raises is logged, and the message counts as not consumed. Also SystemExit, because the
thread must serve the other messages.

**Popping** (`pop_reader.py`). A member with `mode="pop"` has no assignment and no ack file. It asks
the registry for leases, and reads their messages in the mapped files. An acknowledgement is a
request: two members may have messages of one queue, so no file would have one writer. To spare
requests, those of a poll or an iteration go along with the next pop; an explicit `ack` is told at
once. An iteration reads 32 messages ahead, and gives back those of which half the time is over
before their turn comes. A listener (`pop_listener.py`) reads more ahead if callbacks are short.
"""
