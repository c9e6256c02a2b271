"""What each signal does to a store's processes. A signal kills none of them by default.

===================  ==========================================  ==============================
signal               to the supervisor                           to another process of the store
===================  ==========================================  ==============================
SIGTERM              stops the store                             ends within 2 s; its successor
                                                                 goes on
SIGINT, SIGQUIT      stops the store                             nothing
SIGHUP               reads the settings again, or stops          nothing
                     the store (see below)
SIGUSR1              writes all stacks to stderr                 writes all stacks to stderr
the rest of IGNORED  nothing                                     nothing
===================  ==========================================  ==============================

A shell sends SIGHUP when its terminal is closed, and a service manager sends it for a reload. So a
supervisor that was started on a terminal stops cleanly. Without a controlling terminal (systemd,
setsid), or started with SIGHUP ignored (nohup), it reads its settings again and goes on.

A terminal sends SIGINT, SIGQUIT and SIGHUP to a whole process group, and `timeout` a SIGTERM. Only
the supervisor acts on them, because it stops its processes in order: another process waits a moment
after a SIGTERM, and goes on if the store is being stopped. SIGTSTP (Ctrl-Z) stops all of them until
`fg`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], None]

#: These stop the store.
STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
#: A supervisor handles these. They are blocked around a fork, until the child has its own handlers.
HANDLED = (*STOP, signal.SIGHUP)
#: The default action of these is the end of the process, or for the last two its halt: a background
#: process that writes to its terminal gets SIGTTOU under `stty tostop`.
IGNORED = (
    signal.SIGPIPE,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGPWR,
    signal.SIGTTIN,
    signal.SIGTTOU,
)


def handle_in_supervisor(stop: Handler) -> bool:
    """Sets the supervisor's signal handlers. Returns whether SIGHUP stops the store. If it does
    not, it is ignored until the supervisor has set its own handler.
    """
    hang_up_stops = stops_on_hang_up()
    for number in STOP:
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, stop if hang_up_stops else signal.SIG_IGN)
    # A parent may have ignored it. The kernel would then collect the dead children by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _ignore_the_rest()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (*HANDLED, *IGNORED, signal.SIGCHLD, signal.SIGUSR1))
    faulthandler.register(signal.SIGUSR1)
    return hang_up_stops


def stops_on_hang_up() -> bool:
    """Whether SIGHUP stops a store that this process starts: it was started on a terminal, and not
    by nohup.
    """
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and has_terminal()


def handle_in_actor(end: Handler) -> None:
    """Sets the signal handlers of a process that the supervisor has forked, with the signals of
    HANDLED blocked. Unblocks them.
    """
    signal.signal(signal.SIGTERM, end)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    faulthandler.register(signal.SIGUSR1)


def has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    with contextlib.suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        return True
    return False


def _ignore_the_rest() -> None:
    for number in IGNORED:
        if signal.getsignal(number) is signal.SIG_DFL:  # a profiler may have set its own handler
            signal.signal(number, signal.SIG_IGN)
