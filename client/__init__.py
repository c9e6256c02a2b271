"""Everything that a user's process imports. `session.py` is the connection to a store, which all
rooms share. `arguments.py` checks what users pass: every public call turns its arguments into
typed, bounded values there, before it does anything.

**Errors of arguments.** They are StoreErrors and the matching builtin: IllegalType (TypeError),
IllegalArgument (ValueError), IllegalUse (RuntimeError: not now, or not from this thread). One class
that is both ValueError and TypeError would say less. `tests/e2e/test_arguments.py` walks over
everything public, and passes hostile values to each argument on a running store.

**Time-outs** are seconds; None is no limit, in each of them. A producer's calls have a default of
their own, `OWN`, because None could not mean both. The default follows the store's
`heartbeat_timeout_ms`: the supervisor replaces a frozen process after that time, so calls wait for
longer. A put that comes while append is known to be stuck is refused, as in RocketMQ
(OS_PAGE_CACHE_BUSY): nothing of it is stored.

**Clients are not copied.** A copy would share a socket and a ring with the original, and a pickled
one would have neither. So `copy` and `pickle` raise IllegalType. Messages can be copied.

Importing `silomq` imports none of this. Public names are loaded when they are first used, because
the store's own processes start without clients, and every import slows down a user's process.

A client belongs to the process that opened it: `forks.py` says what a forked child does. A client
that is collected without `close` frees its descriptors and warns (ResourceWarning). So nothing may
refer to a client in a cycle: cursors know their view and not the other way round, and threads hold
a session weakly while they have nothing to do. `Connection` uses `__del__` as the standard
library's files and sockets do. `weakref.finalize` would close connections before handlers of
`atexit` that still use them.
"""
