"""The broker's one wait: sockets, the store's bell, timers, and the tasks that they resume.

**One thread, one `epoll_wait`.** `Loop` sleeps in it for everything. It reads what has come, cuts
it into frames, hands each to its handler, and sends all answers of a turn with one call for each
connection. Nothing that it calls may block: what must wait for the store's registry runs in a
thread of its own (`tasks.in_thread`).

**Requests are coroutines.** A request that waits for nothing is answered within the call that
brought it. One that waits gives up its turn, and its task goes on when what it awaits has come
(`tasks.Waiter`). No library of such tasks is used: there is nothing to cancel and no task to find
again, and a step costs less than a microsecond.

**A peer costs only itself.** A frame that is not complete takes as much memory as has arrived of
it, not as much as it announces. A peer that does not read its answers is read no further. A peer
that breaks the protocol, is silent for too long or takes too much memory loses its connection, with
a reason that the log tells.
"""
