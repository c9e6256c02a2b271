"""The exporter for Prometheus as a child of the supervisor, with the setting `metrics_listen`.

It is `silo metrics --listen`, a program of its own: it maps the store's memory read-only like any
client, and nothing waits for it. When it ends it is started again, later and later if it keeps
ending. It ends with its supervisor.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any, Final

from ..actors.actor import World
from ..actors.parent import die_with_parent
from .restarts import RestartPolicy

#: It is tried again at least so often (s).
_MOST_DELAY_S: Final = 30.0
_NEVER_GIVEN_UP: Final = sys.maxsize
#: Variables by which a service manager speaks to the supervisor alone.
_MANAGERS: Final = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID")
_SERVING: Final = b"serving metrics"
_KEPT: Final = 2000
#: It has so long to end after the store has stopped (s).
_ENDS_S: Final = 1.0


class Exporter:
    """The child, if the settings ask for one. `selector` reports its end, and what it says, with
    this object as data; that goes to `news`.
    """

    def __init__(self, world: World, selector: selectors.BaseSelector, logger: Any) -> None:
        self._world = world
        self._store = os.path.abspath(world.folders.root.path)
        self._selector = selector
        self._logger = logger
        self._policy = RestartPolicy(_MOST_DELAY_S, _NEVER_GIVEN_UP)
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = self._pipe = -1
        self._said = b""
        self._started = 0.0
        #: What it was told last: its address, and whether it gives RocketMQ's names too.
        self._told: tuple[str, bool] = ("", False)
        #: Whether it was told to end because the settings have changed.
        self._replaced = False
        #: When it is to be started, and when to be killed, in monotonic seconds; infinite if not.
        self._due = self._kill_at = float("inf")

    def begin(self) -> None:
        """Lets the exporter start in the next turn, if there is to be one."""
        self._told, self._replaced = self._wanted(), False
        if self._told[0]:
            self._due = time.monotonic()

    def follow(self) -> None:
        """Has it be as the settings are now, which may have changed. One that runs ends first."""
        if self._told == self._wanted():
            return
        if self._process is None:
            self._due = float("inf")
            self.begin()
        elif not self._replaced:
            self._replaced = True
            self._process.terminate()
            self._kill_at = time.monotonic() + _ENDS_S

    def _wanted(self) -> tuple[str, bool]:
        settings = self._world.settings
        return settings.metrics_listen, settings.metrics_rocketmq_names

    def patience_s(self) -> float:
        """Seconds until a start or a kill is due; infinite if none is."""
        return max(0.0, min(self._due, self._kill_at) - time.monotonic())

    def turn(self) -> None:
        """Starts it if that is due, and kills it if it was to end and has not."""
        if self._kill_at <= time.monotonic() and self._process is not None:
            self._kill_at = float("inf")
            self._process.kill()
        if self._due <= time.monotonic():
            self._due = float("inf")
            try:
                self._start()
            except OSError as error:
                self._due = time.monotonic() + _MOST_DELAY_S
                self._logger.warning("cannot start the exporter, trying again", error=str(error))

    def _start(self) -> None:
        words = [sys.executable, "-P", "-m", "silomq.cli.main", "metrics", "--store", self._store]
        listen, rocketmq_names = self._told
        words += ["--listen", listen]
        if rocketmq_names:
            words.append("--rocketmq-names")
        supervisor = os.getpid()
        self._said, self._started = b"", time.monotonic()
        self._pipe, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=write_fd,
                env={name: text for name, text in os.environ.items() if name not in _MANAGERS},
                process_group=0,  # Ctrl-C is for the supervisor alone
                # The supervisor has one thread.
                preexec_fn=lambda: die_with_parent(supervisor, signal.SIGTERM),  # noqa: PLW1509
            )
        except OSError:
            os.close(self._pipe)
            self._pipe = -1
            raise
        finally:
            os.close(write_fd)
        self._pidfd = os.pidfd_open(self._process.pid)
        for fd in (self._pidfd, self._pipe):
            self._selector.register(fd, selectors.EVENT_READ, self)

    def news(self, fd: int) -> None:
        """Handles a readable descriptor: it has said something, or it has ended."""
        if fd == self._pipe:
            self._listen()
            return
        if fd != self._pidfd:
            return
        code = self._bury()
        if self._replaced:
            self._policy = RestartPolicy(_MOST_DELAY_S, _NEVER_GIVEN_UP)
            self.begin()
            return
        lived = time.monotonic() - self._started
        delay = self._policy.died(was_ready=_SERVING in self._said, lived_s=lived)
        assert delay is not None, "it is never given up"
        self._due = time.monotonic() + delay
        self._logger.warning(
            "the exporter ended, starting it again",
            how=f"signal {-code}" if code < 0 else f"exit status {code}",
            said=self._said.decode(errors="replace").strip(),
            delay_ms=round(delay * 1000),
        )

    def _listen(self) -> None:
        """Keeps the last that the exporter has said, and closes the pipe at its end."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._pipe, 65_536)
            self._said = (self._said + data)[-_KEPT:]
            if not data:
                self._drop(self._pipe)
                self._pipe = -1

    def _drop(self, fd: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)

    def _bury(self) -> int:
        """Collects the dead exporter. Returns its exit status, or the signal's number below 0."""
        process, self._process = self._process, None
        self._kill_at = float("inf")
        assert process is not None, "it has run"
        if self._pipe >= 0:
            self._listen()
        for fd in (self._pidfd, self._pipe):
            if fd >= 0:
                self._drop(fd)
        self._pidfd = self._pipe = -1
        return process.wait()

    def stop(self) -> None:
        """Tells it to end, for good, and does not wait for that."""
        self._due = self._kill_at = float("inf")
        if self._process is not None:
            self._process.terminate()

    def close(self) -> None:
        """Collects it after `stop`. One that does not end soon is killed."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDS_S)
            self._process.kill()
            self._bury()

    def opened(self) -> list[int]:
        """Descriptors of the supervisor that its other children do not need."""
        return [fd for fd in (self._pidfd, self._pipe) if fd >= 0]
