"""The supervisor: starts, watches, replaces and stops the processes of one store.

The supervisor is single-threaded and forks every process of the store, so each process inherits the
supervisor's mappings and descriptors. These are the control block and the topic table, the
listening socket, and for each client session its ring (a sealed memfd), its bell (an eventfd) and
its connection.

So the registry and append can be replaced (`broker.py`). A new registry serves the same
connections. A new append has every ring. The registry reports a new session to the supervisor, and
the supervisor reports it to append: append never sees a ring that the supervisor does not hold. The
socket pairs between the supervisor and its processes are made once, and the supervisor keeps both
ends. So queued messages are not lost when their receiver dies.

`prepare.py` recovers the store before the first fork, `main.py` is the loop, and `restarts.py`
decides when a process is started again. A process without a heartbeat for `heartbeat_timeout_ms` is
killed and replaced. A process in uninterruptible sleep gets more time. The store ends when a
process fails to start `boot_failures_max` times in a row.
"""
