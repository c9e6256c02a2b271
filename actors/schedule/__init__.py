"""schedule: delivers delayed messages into their topics when they are due.

Schedule sleeps on the arrival words of its queues (each level has one, the timers another) until
the earliest due time. It sends through a ring of its own, that of session number 1. The supervisor
makes the ring at the start and holds it. So the next schedule process finds all frames of a killed
one in it. The progress that `store/delay` keeps makes each delivery happen exactly once.

A client may put any record into the topics of delayed messages. So schedule decodes and checks each
record before it delivers it. What happens to a message that does not fit:

- Its topic has lost the write permission: the message is delivered all the same, as in RocketMQ.
  Schedule has a grant for every topic.
- Its topic was deleted: the registry makes the topic again.
- Its queue does not exist: another queue of the topic takes the message.
- The record cannot be delivered at all (it names no topic, or is too large): schedule logs it and
  skips it.
- The registry cannot make its topic now: its delay level waits for a second and then tries again,
  and so does a single timer. Other levels and timers go on.
- Append refuses it because the store takes no messages (a full disk, a failed sync): all deliveries
  wait, then the refused ones are sent first.

A message is delivered 2 ms after its due time. A record's store time is the time at which its batch
began, and no store time may be earlier than the due time.
"""
