"""Messages to the service manager: the protocol of sd_notify(3).

**While the store starts** the manager would stop it at its time-out. So each sign of progress gives
the start `EXTENDED_S` more, and says in the status what is being done. A step that makes no
progress for so long is stuck, and is ended.

**The watchdog** is fed by `main.py`, as long as the store is sound (`soundness.py`).

**The descriptor store** keeps what must outlive a killed supervisor (`keeping.py`).

**A reload** is said when it begins, with the time, and is over with the next `ready`: systemd 253
(`Type=notify-reload`) waits for both.
"""

from __future__ import annotations

import array
import os
import socket
import time
from collections import deque
from typing import Final

from ..conf.digits import number
from ..conf.printable import printable

#: A start, or a stop, may take so much longer from each sign of progress on (s).
EXTENDED_S: Final = 60
#: Signs of progress that follow each other sooner than this (s) are not passed on.
_APART_S: Final = 0.5
_LONGEST_STATUS: Final = 500
#: So long a message may wait for a manager that does not read (s), and so many are kept for it.
_PATIENCE_S: Final = 0.2
_MOST_UNSENT: Final = 100
#: More is no time of a watchdog (us).
_MOST_USEC: Final = 2**63


class Notifier:
    """Sends the state of the store to the socket that `NOTIFY_SOCKET` names. Without that variable
    every call does nothing.

    `watchdog_s` is half of WATCHDOG_USEC, or None if there is no watchdog for this process: it is
    fed twice in that time.
    """

    def __init__(self, environ: dict[str, str] | None = None) -> None:
        env = dict(os.environ) if environ is None else environ
        self._address = env.get("NOTIFY_SOCKET", "")
        for_us = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = number(env.get("WATCHDOG_USEC", ""), _MOST_USEC)
        self.watchdog_s = usec / 2e6 if for_us and usec else None
        self._fed = self._extended = -1e9  # when, monotonic s
        self._status = ""
        self._unsent: deque[bytes] = deque()

    @property
    def is_heard(self) -> bool:
        """Whether there is a service manager."""
        return bool(self._address)

    def keep(self, name: str, fds: list[int]) -> bool:
        """Gives the manager duplicates of descriptors, under a name. It passes them to the next
        start after a failure. False if it did not read within `_PATIENCE_S`.
        """
        # FDPOLL=0: this process itself sees when a client has gone.
        return self._tell(b"FDSTORE=1\nFDPOLL=0\nFDNAME=" + name.encode(), fds)

    def forget(self, name: str) -> bool:
        """Has the manager close what it keeps under a name. False if it did not read."""
        return self._tell(b"FDSTOREREMOVE=1\nFDNAME=" + name.encode(), [])

    def _tell(self, message: bytes, fds: list[int]) -> bool:
        try:
            with self._socket() as end:
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
                end.sendmsg([message], [rights] if fds else [], 0, self._target)
        except OSError:
            return False
        return True

    @property
    def _target(self) -> str:
        abstract = self._address.startswith("@")
        return "\0" + self._address[1:] if abstract else self._address

    def _socket(self) -> socket.socket:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        end.settimeout(_PATIENCE_S)
        return end

    def send(self, **fields: str | int) -> None:
        """Sends one message of KEY=value lines. Errors are ignored: the store runs without them.

        A manager that does not read holds the store up for `_PATIENCE_S` at most. What it has not
        taken then is sent before the next message, except for signs of life.
        """
        if not self._address:
            return
        text = "\n".join(f"{name.upper()}={value}" for name, value in fields.items())
        self._unsent.append(text.encode(errors="backslashreplace"))
        try:
            with self._socket() as end:
                while self._unsent:
                    end.sendto(self._unsent[0], self._target)
                    self._unsent.popleft()
        except TimeoutError:
            kept = [one for one in self._unsent if not one.startswith(b"WATCHDOG=")]
            self._unsent = deque(kept, maxlen=_MOST_UNSENT)
        except OSError:
            self._unsent.clear()

    def progress(self, step: str, done: int = 0, in_all: int = 0) -> None:
        """Says what the start is doing, which gives it more time. A `Pulse` (`store/pulse.py`)."""
        now = time.monotonic()
        if now - self._extended < _APART_S:
            return
        self._extended = now
        amount = f": {done:,} of {in_all:,}" if in_all else f": {done:,}" if done else ""
        self.send(
            extend_timeout_usec=EXTENDED_S * 1_000_000, status=_line(f"starting: {step}{amount}")
        )

    def ready(self, status: str) -> None:
        """Says that the start, or a reload, is over; `systemctl status` shows `status`."""
        self._status = _line(status)
        self.send(ready=1, status=self._status, mainpid=os.getpid())

    def say(self, status: str) -> None:
        """Changes the status, if it is another one."""
        if _line(status) != self._status:
            self._status = _line(status)
            self.send(status=self._status)

    def reloading(self, status: str) -> None:
        """Says that a reload has begun. `ready` ends it."""
        self._status = _line(status)
        self.send(reloading=1, monotonic_usec=time.monotonic_ns() // 1000, status=self._status)

    def stopping(self, within_s: float) -> None:
        """Says that the stop has begun, and takes as long as this at most."""
        usec = int((within_s + 5) * 1_000_000)
        self.send(stopping=1, extend_timeout_usec=usec, status="stopping")

    def feed(self) -> None:
        """Feeds the watchdog, unless it was fed a moment ago."""
        now = time.monotonic()
        if self.watchdog_s and now - self._fed >= self.watchdog_s / 4:
            self._fed = now
            self.send(watchdog=1)


def _line(text: str) -> str:
    """A status as one line: the protocol ends a value at a line's end."""
    return printable(" ".join(text.split())[:_LONGEST_STATUS])
