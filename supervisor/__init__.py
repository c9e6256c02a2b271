"""The supervisor: starts, watches, replaces and stops the processes of one store.

The supervisor is single-threaded and forks every process of the store, so each process inherits the
supervisor's mappings and descriptors. These are the control block and the topic table, the
listening socket, and for each client session its connection, its ring (a sealed memfd), append's
eventfd, and its own bell (`shm/bell.py`).

So the registry and append can be replaced (`broker.py`). A new registry serves the same
connections. A new append has every ring. The registry reports a new session to the supervisor, and
the supervisor reports it to append: append never sees a ring that the supervisor does not hold. The
same goes for a session's bell, which reput and flush get as well. These two sleep on words of the
control block, and the supervisor wakes them for their mail (`outbox.py`). The socket pairs between
the supervisor and its processes are made once, and the supervisor keeps both ends. So queued
messages are not lost when their receiver dies.

**Descriptors.** Each session costs the supervisor, the registry and append up to three descriptors,
and its own bell up to three more.
The supervisor raises its soft limit of open files to the hard one, for good, and the registry
refuses a session that the limit does not carry (`actors/descriptors.py`). Each process keeps a
reserve for all else. Counting is better than waiting for the error: when descriptors are short,
they are short in every process at once, and the start of an actor needs some. If they are short all
the same (the machine's own limit, memory), an actor that cannot be forked, or that ends for this
reason, is started again every 0.25 s, as often as needed. A session whose descriptors do not arrive
ends, so that its client does not wait for processes that do not know it.

**Signals.** No signal but SIGKILL ends the store uncleanly (`actors/signals.py` has the table).
SIGHUP reads the settings again (`live_settings.py`). On a terminal it stops the store cleanly,
because few users expect a store to outlive its terminal.

**The service manager** (`notify.py`) gives a start more time as long as that makes progress. Its
watchdog is fed with proof of progress alone (`soundness.py`).

It also keeps duplicates of the sessions' descriptors (`keeping.py`). So when the supervisor itself
is killed, and all actors with it, the next one goes on with the same sessions (`resuming.py`).
Without a service manager the next start recovers the store from its files, and clients begin new
sessions.

**The socket** for clients is the store's own or the service manager's (`listener.py`).

**The exporter** for Prometheus (`exporter.py`) is another program that the supervisor starts, not a
fork: it gets nothing of the store but what each client gets, and no process waits for it.

**New code** (`new_code.py`) takes over a running store: its processes take the places of the
actors, one after another, and the supervisor executes it last. `candidate.py` starts such a
process, `successor.py` is its own side, `handover.py` and `takeover.py` are the state that is
handed over, and `layouts.py` says which releases may run beside one another. `changes.py` has what
clients ask for: this, or a new process in the place of one (`replacing.py`).

`prepare.py` recovers the store before the first fork, `first_words.py` says what was found,
`main.py` is the loop. `children.py` starts, watches and buries the processes, `restarts.py` decides
when one is started again, and `replacing.py` replaces one that works. `bad_files.py` keeps those
that lack a file. A process without a heartbeat for `heartbeat_timeout_ms` is killed and
replaced. A process in uninterruptible sleep gets more time, and so does one that sets itself up.
Set-up has no limit as a whole: its work grows with the store, and it beats meanwhile. The store
ends when a process fails to start `boot_failures_max` times in a row.
"""
