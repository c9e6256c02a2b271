"""A program that becomes a server, and gets SIGTERM when the process that started it dies.

    python -I -S leash.py PARENT SLACK COMMAND...

PARENT is the pid of that process. SLACK is how late the kernel may wake the server's threads, in
ns; 0 leaves the kernel's own 50 us. A harness that is killed cannot end its servers by itself,
and they would take CPU from the next measurement. This is a program rather than code between fork
and exec, because a fork of a process with threads may only call exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PROGRAM = [sys.executable, "-I", "-S", __file__]


def leashed(command: list[str], *, slack_ns: int = 0) -> list[str]:
    """The command on a leash of this process."""
    if command[: len(_PROGRAM)] == _PROGRAM:  # on a leash already
        return command
    return [*_PROGRAM, str(os.getpid()), str(slack_ns), *command]


def main() -> int:
    """Becomes the command. Returns 127 if it cannot be run."""
    parent, slack_ns, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
        print(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 127
    if os.getppid() != parent:  # it has died before the leash was on
        return 127
    if slack_ns != "0":
        with open("/proc/self/timerslack_ns", "w") as slack:
            slack.write(slack_ns)
    try:
        os.execvp(command[0], command)  # noqa: S606 - that is what this program is for
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main())
