"""A store and the broker that serves it, as the two children of one small process.

The supervisor of a store forks, so its process has no threads, and a broker has some. So each has a
process of its own, and this parent watches both. It restarts a broker that dies. When the store
ends, all ends, with the store's exit status.

Each child has a process group of its own: Ctrl-C at a terminal, or `timeout`, signals the parent
alone. The parent then ends the broker first, so that clients see their connections close and not a
store that is gone. When the parent is killed the kernel sends both children a SIGTERM.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Any, Final

from ..actors.parent import die_with_parent
from ..actors.signals import HANDLED, STOP, stops_on_hang_up
from ..conf.logging import get_logger
from . import listener
from .child import Child, fork
from .keeping import VARIABLE
from .notify import Notifier
from .relay import Relay
from .restarts import RestartPolicy

#: A broker that has not ended by then is killed (s).
_BROKER_ENDS_S: Final = 5.0
_TICK_S: Final = 60.0
_RESTART_DELAY_MAX_S: Final = 1.0
#: So many starts of the broker may fail in a row.
_BOOT_FAILURES_MAX: Final = 5
#: Exit statuses from here on name the signal that ended the store, as in a shell.
_SIGNALLED: Final = 128
_TAKEN: Final = (*HANDLED, signal.SIGTSTP)
_STORE: Final = "store"
_BROKER: Final = "broker"
#: Does the work of a child, calls its argument when the child is ready, and returns the exit
#: status of the child.
Work = Callable[[Callable[[], None]], int]


class StoreAndBroker:
    """Runs a store and a broker in children until a signal or the store's end. `load_broker`
    imports what the broker needs, while the store starts. The Work that it returns begins when the
    store has its lock.

    `ready` is called once, when the broker serves for the first time. `until` is a descriptor whose
    end of file stops both, -1 for none. `stop_s` is how long the store may take to stop.
    """

    def __init__(
        self,
        run_store: Work,
        load_broker: Callable[[], Work],
        ready: Callable[[], None],
        until: int = -1,
        *,
        stop_s: float,
    ) -> None:
        self._run_store = run_store
        self._load_broker = load_broker
        self._ready = ready
        self._until = until
        self._stop_s = stop_s + _BROKER_ENDS_S
        self._logger: Any = get_logger()
        self._pid = os.getpid()
        self._children: dict[str, Child] = {}
        self._policy = RestartPolicy(_RESTART_DELAY_MAX_S, _BOOT_FAILURES_MAX)
        #: When the broker is to be started again, and when it is to be killed.
        self._due: float | None = None
        self._deadline: float | None = None
        self._stopping = self._served = False
        #: Whether the store was this process's own: it had its lock, and its files could be used.
        self.claimed = False
        self._status = 0
        self._notifier = Notifier()
        self._relay = Relay(self._notifier)
        self._hang_up_stops = stops_on_hang_up()
        self._selector = selectors.DefaultSelector()
        # The broker waits at this pipe: a store that does not get its lock is another's.
        self._gate, self._opener = os.pipe2(os.O_CLOEXEC)
        self._signals, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[signal.Signals, Any] = {}

    def run(self) -> int:
        """Runs both to their end. The exit status is the store's, or the broker's if that could not
        start.
        """
        for number in _TAKEN:
            self._before[number] = signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TAKEN)
        self._selector.register(self._signals, selectors.EVENT_READ, self._read_signals)
        if self._until >= 0:
            self._selector.register(self._until, selectors.EVENT_READ, self._read_until)
        if self._relay.socket is not None:
            self._selector.register(self._relay.socket, selectors.EVENT_READ, self._pass_on)
        gc.collect()
        gc.freeze()  # or each child's garbage collector would write to, and copy, shared pages
        self._start(_STORE)
        self._start(_BROKER)
        listener.drop()
        while self._children:
            self._turn()
        return self._status

    def _turn(self) -> None:
        times = [when for when in (self._due, self._deadline) if when is not None]
        patience_s = max(0.0, min(times) - time.monotonic()) if times else _TICK_S
        for key, _ in self._selector.select(patience_s):
            if key.fd in self._selector.get_map():  # an event before it may have ended it
                key.data()
        now = time.monotonic()
        if self._due is not None and self._due <= now:
            self._due = None
            self._start(_BROKER)
        if self._deadline is not None and self._deadline <= now:
            self._deadline = None
            self._signal(_BROKER, signal.SIGKILL)

    # -- children

    def _start(self, name: str) -> None:
        child = fork(name, self._become)
        self._children[name] = child
        with contextlib.suppress(OSError):  # it may have done so itself, and have ended
            os.setpgid(child.pid, child.pid)
        self._selector.register(child.pidfd, selectors.EVENT_READ, lambda: self._bury(child))
        self._selector.register(child.ready_fd, selectors.EVENT_READ, lambda: self._heard(child))

    def _become(self, name: str, ready_fd: int) -> None:
        """Does the work in the child after the fork. Never returns."""
        status = 1
        try:
            os.setpgid(0, 0)
            die_with_parent(self._pid, signal.SIGTERM)
            signal.set_wakeup_fd(-1)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            if name == _BROKER:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
            self._selector.close()
            for fd in (self._signals, self._wakeup, self._opener):
                os.close(fd)
            for child in self._children.values():
                os.close(child.pidfd)
                if child.ready_fd >= 0:
                    os.close(child.ready_fd)
            self._leave_manager_to_parent(name)
            work = self._run_store if name == _STORE else self._load_broker()
            if name == _STORE or os.read(self._gate, 1):
                os.close(self._gate)
                status = work(lambda: _say_ready(ready_fd))
        finally:
            os._exit(status)

    def _leave_manager_to_parent(self, name: str) -> None:
        """In a child: the parent alone talks to the service manager, and passes on what the store
        says.
        """
        os.environ.pop("NOTIFY_SOCKET", None)
        os.environ.pop("WATCHDOG_PID", None)
        if name == _STORE:
            listener.pass_on()
        else:
            listener.drop()
            os.environ.pop(VARIABLE, None)
        if name == _STORE and self._relay.address:
            os.environ["NOTIFY_SOCKET"] = self._relay.address
        self._relay.close()

    def _pass_on(self) -> None:
        if _STORE in self._children:
            self._relay.read(self._children[_STORE].pid)

    def _heard(self, child: Child) -> None:
        """A child is ready, or has ended before it was."""
        child.ready = os.read(child.ready_fd, 1) == b"1"
        self._forget_ready(child)
        if not child.ready:
            return
        child.started = time.monotonic()
        if child.name == _STORE:
            self.claimed = True
            self._open_gate()
        elif not self._served:
            self._served = True
            self._notifier.ready("serving clients")
            self._ready()

    def _open_gate(self) -> None:
        os.write(self._opener, b"1")

    def _forget_ready(self, child: Child) -> None:
        if child.ready_fd >= 0:
            self._selector.unregister(child.ready_fd)
            os.close(child.ready_fd)
            child.ready_fd = -1

    def _bury(self, child: Child) -> None:
        """Collects a dead child, and does what follows from its death."""
        self._selector.unregister(child.pidfd)
        os.close(child.pidfd)
        if child.ready_fd >= 0:
            self._heard(child)
        del self._children[child.name]
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        if child.name == _STORE:
            if self._stopping and code == -signal.SIGTERM:
                code = 0  # it was told to end before it had its own handler
            self._status = self._status or (code if code >= 0 else _SIGNALLED - code)
            self._stopping, self._due = True, None
            self._end_broker()
            return
        self._deadline = None
        if self._stopping:
            self._signal(_STORE, signal.SIGTERM)
        else:
            self._replace(child, code)

    def _replace(self, child: Child, code: int) -> None:
        """Starts the broker again. A broker that could never start ends the store too."""
        delay = self._policy.died(was_ready=child.ready, lived_s=time.monotonic() - child.started)
        if not self._served or delay is None:
            self._status = code if code > 0 else 1
            self.stop()
            return
        said = f"signal {-code}" if code < 0 else f"exit status {code}"
        self._logger.warning("broker died, replacing it", how=said, delay_ms=round(delay * 1000))
        self._open_gate()
        self._due = time.monotonic() + delay

    def _signal(self, name: str, number: signal.Signals) -> None:
        if name in self._children:
            signal.pidfd_send_signal(self._children[name].pidfd, number)

    # -- the end

    def stop(self) -> None:
        """Ends the broker, then the store."""
        if self._stopping:
            return
        self._stopping, self._due = True, None
        self._notifier.stopping(self._stop_s)
        if _BROKER in self._children:
            self._end_broker()
        else:
            self._signal(_STORE, signal.SIGTERM)

    def _end_broker(self) -> None:
        if _BROKER in self._children and self._deadline is None:
            self._deadline = time.monotonic() + _BROKER_ENDS_S
            self._signal(_BROKER, signal.SIGTERM)

    def _read_signals(self) -> None:
        for number in os.read(self._signals, 4096):
            if number in STOP or (number == signal.SIGHUP and self._hang_up_stops):
                self.stop()
            elif number == signal.SIGHUP:
                self._signal(_STORE, signal.SIGHUP)
            elif number == signal.SIGTSTP:
                self._suspend()

    def _suspend(self) -> None:
        """Ctrl-Z: stops both children and itself, until `fg`."""
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for child in self._children.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, number)
            if number == signal.SIGSTOP:
                os.kill(self._pid, number)

    def _read_until(self) -> None:
        if not os.read(self._until, 4096):
            self._selector.unregister(self._until)
            self.stop()


def _say_ready(ready_fd: int) -> None:
    os.write(ready_fd, b"1")
    os.close(ready_fd)
