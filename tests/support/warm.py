"""Stores and commands that begin at once. Importing the same modules for each of them took longer
than most of what tests do with them.

They are processes like any other: children of this one, with the descriptors, environment, folder
and arguments that they are given. But no interpreter is started for them. A process that has
imported everything forks them (`warm_program.py`); each process of tests has one for each
environment. A program is started as a user starts it where the interpreter itself matters, the
first time, and in the long forms.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec

from .warm_program import MOST_FDS, Order

#: How Python is started for a program.
PYTHON: Final = (sys.executable, "-P")
#: How the names of variables begin that a program reads only when it runs.
_READ_LATE = ("SILOMQ_", "SILO_", "PYTEST_")
#: The exception: with this variable an import opens a file.
_OPENS_A_FILE = "SILOMQ_DISK_RECORD"
#: The arguments of `Popen._execute_child` in Python 3.11 to 3.13, and the pipes among them.
_GIVEN = (
    "args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo",
    "creationflags", "shell", "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite",
    "restore_signals", "gid", "gids", "uid", "umask", "start_new_session", "process_group",
)  # fmt: skip
_PIPES = slice(10, 16)
#: With any other value of these arguments a new interpreter is started.
_USUAL = {
    "executable": None, "preexec_fn": None, "close_fds": True, "shell": False,
    "restore_signals": True, "gid": None, "gids": None, "uid": None, "umask": -1,
    "process_group": -1,
}  # fmt: skip
_PROGRAM = Path(__file__).with_name("warm_program.py")
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)
_lock = threading.Lock()


class _Forks:
    """A process that forks programs for this one, with this environment. It ends with this one."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [*PYTHON, str(_PROGRAM), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=environ,
                pass_fds=(theirs.fileno(),),
            )

    def fork(self, order: Order, fds: list[int]) -> int:
        """The process number of a program, which is a child of this process: the one that forked it
        ends at once, and this process takes in what it leaves.
        """
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self.link, [msgspec.json.encode(order)], fds)
            answer = self.link.recv(20)
        finally:
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert answer, "the process that forks programs has ended"
        return int(answer)


#: This process, and the variables that matter to a new interpreter.
_Key = tuple[int, frozenset[tuple[str, str]]]
#: How many programs were asked for, and what forks them from the second on.
_asked: Counter[_Key] = Counter()
_forks: dict[_Key, _Forks] = {}


def _forks_for(environ: dict[str, str]) -> _Forks | None:
    """What forks programs with this environment. With the lock held."""
    variables = (item for item in environ.items() if not item[0].startswith(_READ_LATE))
    key = os.getpid(), frozenset(variables)
    _asked[key] += 1
    if key not in _forks and _asked[key] > 1:
        _forks[key] = _Forks(environ)
    return _forks.get(key)


class WarmProcess(subprocess.Popen[bytes]):
    """As `subprocess.Popen`. Forks the program if the command is `[*PYTHON, "-m", MODULE, ...]` or
    `[*PYTHON, SCRIPT, ...]`, and nothing is asked for that only a new interpreter can have.
    """

    #: Whether it was forked.
    is_warm = False

    def _execute_child(self, *given: Any) -> None:
        """What `Popen` has each platform do."""
        options = dict(zip(_GIVEN, given, strict=True))
        order = _order(options)
        with _lock:
            forks = None if order is None else _forks_for(order.environ)
            if order is None or forks is None:
                super()._execute_child(*given)  # type: ignore[misc]
                return
            ours = enumerate((options["p2cread"], options["c2pwrite"], options["errwrite"]))
            standard = [number if fd == -1 else fd for number, fd in ours]
            self.pid = forks.fork(order, [*standard, *options["pass_fds"]])
        self.is_warm = True
        self._child_created = True
        self._close_pipe_fds(*given[_PIPES])  # type: ignore[attr-defined]


def _order(options: dict[str, Any]) -> Order | None:
    """What is to be forked; None if a new interpreter must be started."""
    words = [os.fsdecode(word) for word in options["args"]]
    if (*words[:2],) != PYTHON or os.environ.get("SILOMQ_LONG") == "1":
        return None
    program, *arguments = words[3:] if words[2] == "-m" else words[2:]
    environ = dict(os.environ if options["env"] is None else options["env"])
    fds = [0, 1, 2, *options["pass_fds"]]
    texts = "".join([*words, *itertools.chain(*environ.items())])
    if (
        program.startswith("-")
        or any(options[name] != usual for name, usual in _USUAL.items())
        or _OPENS_A_FILE in environ
        or len(fds) > MOST_FDS
        or texts != texts.encode(errors="ignore").decode()  # an order is UTF-8
    ):
        return None
    return Order(
        program=program,
        arguments=arguments,
        environ=environ,
        folder=os.path.abspath(options["cwd"] or "."),
        umask=_umask(),
        new_session=options["start_new_session"],
        fds=fds,
    )


def _umask() -> int:
    found = re.search(r"^Umask:\s*(\d+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1], 8)


def run(
    command: list[str], *, stdin: bytes = b"", timeout_s: float
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command to its end, and returns what it wrote."""
    pipe = subprocess.PIPE
    with WarmProcess(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            out, errors = process.communicate(stdin, timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)
