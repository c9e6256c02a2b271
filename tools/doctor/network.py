"""The port of a broker: whether somebody listens there."""

from __future__ import annotations

from typing import Final

import psutil

from .findings import Finding, ok, warning

_BROKERS: Final = ("silo", "silomq")


def check(port: int) -> Finding:
    """Who listens at the TCP port `port` of this machine. Connects to nothing."""
    try:
        found = [
            one for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == port
        ]
    except (psutil.Error, OSError) as error:
        advice = "look at it with ss -ltnp"
        return warning("broker port", f"the list of sockets cannot be read ({error})", advice)
    listening = [one for one in found if one.status == psutil.CONN_LISTEN]
    if not listening:
        return ok("broker port", f"{port} is free")
    pid = next((one.pid for one in listening if one.pid), None)
    if pid is None:
        advice = "if it is no broker of yours: silo broker --listen with another port"
        return warning("broker port", f"a process of another user listens at {port}", advice)
    try:
        process = psutil.Process(pid)
        name, words = process.name(), process.cmdline()
    except psutil.Error:
        name, words = "a process that has just ended", []
    if any(word in " ".join(words) for word in _BROKERS):
        return ok("broker port", f"a broker listens at {port} (pid {pid})")
    advice = "stop it, or use silo broker --listen with another port"
    return warning("broker port", f"{name} (pid {pid}) listens at {port}", advice)
