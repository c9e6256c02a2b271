"""The registry: the process that answers clients. Sessions, topics, grants, consumer groups.

Requests and answers are packets on a Unix socket (`shm/protocol/requests.py` lists them). Every
request is idempotent: when the registry is replaced, a client repeats its pending request. A client
that does not read its answers loses its connection.

**Failures.** A packet is turned into a typed request, with bounds, before anything acts on it. What
fits no request is answered with an error that names the field. If a request fails because of the
operating system, or because of a defect, the client gets an error too, the log has the traceback,
and the registry goes on. Otherwise the client would ask the successor the same, which would die of
it as well, and no other client would be served.

**Long messages** go in parts (`shm/parts.py`). A client that reads its answer slowly holds up
nobody: the rest waits here until its socket has room, and so do its further requests (`unsent.py`).
Unfinished requests and unsent answers are bounded in time and in size, together and for each user
(`shares.py`). A client is told to try again when there is no room for its message.

**Many users.** Clients of other users than the store's own and root share what there is. Each user
has a quota of sessions, and some sessions are kept for the two (`quotas.py`). Connections without a
session are bounded in number and time (`waiting.py`). In a turn of the loop each connection has one
request answered, users take turns, and a user has a bounded time (`turns.py`). Descriptors that a
client sends are never taken (`passed_descriptors.py`). Topics, groups and offsets are altered by
the store's user, root and `admin_group` (`access.py`). What ordinary clients need stays open to all
who may connect: a new topic by its first message, joining and leaving groups, retry topics, and the
offsets of a member's own group.

**Boards.** A session may ask for a board (`boards.py`) and show there what it does, as a broker
does for `silo status`. The registry makes it and hands it out to all who ask, and never reads it.

**Groups.** The registry knows the members of each group and divides the queues by RocketMQ's
averaging. In RocketMQ each client divides for itself, and for a while two clients may have the same
queue. Here a queue is revoked from one member before the next one gets it:

1. Each session has a *notice* word in the topic table, on which its consumer sleeps beside its
   queues. The registry changes the word, and the consumer sends a `sync` request.
2. The answer lists the queues to give back. The consumer finishes its work on them and confirms in
   its next `sync`.
3. The next member gets the queue in a new ack file, which begins at the offset at which the old one
   ended.

So no two members have the same queue at the same time, which orderly consuming needs (RocketMQ: a
lock at the broker, renewed every 20 s). The registry notices the death of a member by its socket. A
member that does not give back a queue within `consumer_release_timeout_ms` is expelled. So is one
that gives no sign of life for `consumer_stopped_timeout_ms` while the registry wants one, because
its process is stopped (`stopped_members.py`). In these two cases two processes may work on the same
message. With members on the network it may also be so when their broker has not given back a queue
in twice `consumer_release_timeout_ms`, or gives one back for clients that do not say what they do.

All members of a group must have the same subscription, or joining is refused. In RocketMQ the last
subscription replaces the others, and messages that pass only one of the filters are lost. In a
topic that is new to a group, the group begins where its first member asks for. Queues that are
added to a known topic are read from their first message.

**Beside members on the network.** RocketMQ's clients at a broker divide the queues themselves, by
averaging over their sorted client ids. If a group has such members too, its members here get client
ids in that list, and the same division (`division.py`). All of the network's members together are
one more member to the registry, a *side* (`sides.py`), for which the broker speaks. A queue changes
sides in the same two steps. The broker gives a queue back when its clients have let go of it
(`broker/link/shared_groups.py`).

Idle members cost nearly nothing. A change of members costs more, because a new division of the
queues notifies all of them. So the registry waits for further changes before it divides: 20 ms and
0.5 ms for each member, at most 0.5 s.

**Progress** of a group is kept in three places, each for another failure:

- The ack file of a living member. Ack files are numbered, and for each queue the newest one counts.
- `config/consumerOffset.json`, replaced every 5 s and at a stop.
- The registry's memory, which also has the queues that no member reads.

The ack file of a member that has left is removed once the JSON file holds its offsets. It stays if
messages were acknowledged out of order, which RocketMQ's format cannot express. After a power cut
the larger of both offsets counts. A reset is an ack file without a member, written once the members
have given the queues back. Broadcasting members have every queue. Their progress is kept in
`silomq/broadcastOffset.json` under the name of their instance, and not at all without a name.

**Popping** (`pops.py`). Members that pop share all queues: there may be more members than queues,
and nobody divides. The registry leases messages to the member that asks, up to 32 of a queue in one
lease. What is not acknowledged when its lease ends is handed out again, from the same queue entry
and before newer messages. (RocketMQ stores a copy in a retry topic.)

- State. For each group and queue: the leases, and the first message that was never handed out. A
  change is one frame of a journal, noted before the answer (`popped_queues.py`). So a member that
  has got messages has them until their time ends, whichever process is killed.
- The group's offset, which RocketMQ and `silo groups` see, is that of the first message that is not
  acknowledged. It is saved as every offset, so a store that is handed over loses nothing.
- A request may be repeated when the registry is replaced. It carries a number, and the leases that
  the killed registry has noted for it are answered once more.
- Dead letters. The registry says how often messages were handed out. The member that gets one too
  often puts it into the group's dead letters, then acknowledges it. If it dies in between, another
  one does both again: at least once.
- Pulling beside. The larger offset counts, of what was popped and what was committed, so a group
  may go from one way to the other. While it does both at once, messages may come twice. Members to
  whom the registry assigns queues cannot be in a group that pops.
"""
