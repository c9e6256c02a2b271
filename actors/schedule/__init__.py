"""schedule: delivers delayed messages into their topics when they are due.

It sleeps on the arrival words of 19 queues (18 levels and the timers) until the earliest due time,
and sends through a ring of its own, session number 1. The supervisor makes that ring at the start
and holds it, so a successor finds it with everything in it. What `store/delay` writes down makes
each delivery happen exactly once.

A client may put any record into the topics in which messages wait. So schedule takes a record apart
again before it delivers it. It has a grant for every topic. A topic that lost its write permission
meanwhile still gets what was accepted before, as in RocketMQ. A topic that was deleted is made
again. A queue that does not exist is replaced by another one. A record that cannot be delivered at
all (no topic in it, too large) is logged and passed over. A refusal by append concerns the whole
store (a full disk), so all deliveries wait then, and the refused ones go first. A topic that the
registry cannot make stops its own level or timer only.

A message is delivered 2 ms after its due time, because a record's store time is that of its batch's
beginning, and no reader should see a message that was stored too early.
"""
