"""The supervisor: spawns, watches, replaces and stops the processes of one store.

The supervisor is single-threaded and forks every process of the store, so a process inherits what
the supervisor holds. That is the mappings of the control block and the topic table, the listening
socket, and for each client session its ring (a sealed memfd), its bell (an eventfd) and its
connection.

That is what makes the registry and append replaceable (`broker.py`). A new registry goes on serving
the same connections, and clients notice nothing. A new append finds every ring. A new session goes
from the registry to the supervisor and then to append, so append never sees a ring that the
supervisor does not hold. The socket pairs between the supervisor and its processes are made once
and the supervisor keeps both ends: queued messages outlive their receiver.

`prepare.py` is what must be so before the first fork, `main.py` the loop, `restarts.py` the
decision when to start a process again. A process that does not beat for `heartbeat_timeout_ms` is
killed and replaced; one that the kernel holds in uninterruptible sleep gets more time. A process
that fails to start `boot_failures_max` times in a row ends the store.
"""
