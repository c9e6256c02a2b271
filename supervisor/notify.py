"""Messages to the service manager: the protocol of sd_notify(3)."""

from __future__ import annotations

import contextlib
import os
import socket


class Notifier:
    """Sends the state of the store to the socket that `NOTIFY_SOCKET` names. Without that variable
    every call does nothing.

    `watchdog_s` is the interval in which `ping` must be called (half of WATCHDOG_USEC), or None if
    there is no watchdog for this process.
    """

    def __init__(self, environ: dict[str, str] | None = None) -> None:
        env = dict(os.environ) if environ is None else environ
        self._address = env.get("NOTIFY_SOCKET", "")
        for_us = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = env.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(usec) / 2e6 if for_us and usec.isdigit() and int(usec) else None

    def send(self, **fields: str | int) -> None:
        """Sends one message of KEY=value lines. Errors are ignored: the store runs without them."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        text = "\n".join(f"{name.upper()}={value}" for name, value in fields.items())
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end,
        ):
            end.sendto(text.encode(), address)

    def ready(self, status: str) -> None:
        """Says that the start is over; `status` is shown by `systemctl status`."""
        self.send(ready=1, status=status, mainpid=os.getpid())

    def stopping(self) -> None:
        """Says that the stop has begun."""
        self.send(stopping=1, status="stopping")

    def ping(self) -> None:
        """Says that the supervisor's loop runs, before the watchdog's time is up."""
        self.send(watchdog=1)
