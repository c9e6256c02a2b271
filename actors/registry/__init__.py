"""The registry: sessions, topics, grants, consumer groups.

It serves one packet a request on a Unix socket (the module of the protocol lists the requests).
Each request may be repeated, because a client repeats what it had asked when it hears that the
registry was replaced. A client that does not read its answers loses its connection.

**Groups.** The registry knows the members of each group and divides the queues by RocketMQ's
averaging. RocketMQ leaves that to each client, and for a while two clients may have one queue. A
queue moves in two steps. Each session has a *notice* word in the topic table, on which a consumer
sleeps beside its queues. When it moves, the member asks. A member that is told to give a queue back
ends its work on it and says so. Only then does the next member get it, in a new ack file that
begins where the old one ended. So no two members have the same queue, which is what orderly
consuming needs (RocketMQ has a lock at the broker for it, renewed every 20 s). A member that dies
is noticed by its socket. One that lives and does not answer within `consumer_release_timeout_ms` is
expelled: the one case in which two processes may have had the same message in hand.

Members of a group must subscribe to the same, or joining is refused: RocketMQ lets the last one
win, and messages that pass the one filter and not the other are lost. A group that is new to a
topic begins where its first member says; queues that a known topic gains are read from their
beginning.

Idle members cost nearly nothing. Joining costs more, because each division of the queues asks all
members. So the registry waits for further changes before it divides: 20 ms and 0.5 ms a member, at
most 0.5 s.

**Progress** of a group lies in three places, each for another failure. A living member has its ack
file. `config/consumerOffset.json` is replaced every 5 s and at the end. The registry's memory has
the queues that no member reads. Ack files are numbered, and the newest that names a queue is right.
A file whose member has gone is removed once the JSON file says the same, except where messages were
acknowledged out of order, for which RocketMQ's format has no place. After a power cut the larger of
both offsets counts. A reset is an ack file without a member, written when the members have given
the queues back. Broadcasting members have every queue; `silomq/broadcastOffset.json` keeps their
progress under their instance's name, and nothing is kept for one without a name.
"""
