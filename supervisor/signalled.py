"""What signals ask of a supervisor (`actors/signals.py` has the table)."""

from __future__ import annotations

import os
import signal

from ..actors.signals import handle_in_supervisor


class Signalled:
    """Sets the supervisor's signal handlers, and keeps what they were called for.

    `hang_up_stops`: whether SIGHUP stops the store; None has it found out, as at the start of a
    store.
    """

    def __init__(self, *, hang_up_stops: bool | None = None) -> None:
        self.stop = False
        self.hang_up = False
        if hang_up_stops is False:
            # One that waits since the exec of new code would be dropped with the handler below.
            self.hang_up = signal.SIGHUP in signal.sigpending()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.hang_up_stops = handle_in_supervisor(self._on_stop)

    def wake_loop(self) -> tuple[int, int]:
        """From now on a signal writes to a pipe, and SIGHUP asks for a reload. Returns both ends of
        the pipe.
        """
        if not self.hang_up_stops:
            signal.signal(signal.SIGHUP, self._on_hang_up)
        ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(ends[1], warn_on_full_buffer=False)
        return ends

    def _on_stop(self, _number: int, _frame: object) -> None:
        self.stop = True

    def _on_hang_up(self, _number: int, _frame: object) -> None:
        self.hang_up = True
