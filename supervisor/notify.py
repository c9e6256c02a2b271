"""The service manager's side: sd_notify messages, as systemd(1) reads them from NOTIFY_SOCKET."""

from __future__ import annotations

import os
import socket


class Notifier:
    """Sends state to the socket in `NOTIFY_SOCKET`; without one every call does nothing.

    `watchdog_s` is how often `ping` must be called (half of WATCHDOG_USEC), None without a watchdog
    for this process.
    """

    def __init__(self, environ: dict[str, str] | None = None) -> None:
        env = dict(os.environ) if environ is None else environ
        self._address = env.get("NOTIFY_SOCKET", "")
        for_us = env.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = env.get("WATCHDOG_USEC", "")
        self.watchdog_s = int(usec) / 2e6 if for_us and usec.isdigit() and int(usec) else None

    def send(self, **fields: str | int) -> None:
        """One message of KEY=value lines. A manager that does not listen is no reason to fail."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        text = "\n".join(f"{name.upper()}={value}" for name, value in fields.items())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
            try:
                end.sendto(text.encode(), address)
            except OSError:
                return

    def ready(self, status: str) -> None:
        self.send(ready=1, status=status, mainpid=os.getpid())

    def stopping(self) -> None:
        self.send(stopping=1, status="stopping")

    def ping(self) -> None:
        self.send(watchdog=1)
