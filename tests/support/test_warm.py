"""A program that is forked finds what one finds that is started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from support.warm import PYTHON, WarmProcess

if TYPE_CHECKING:
    from pathlib import Path

#: What a program can see of how it was started.
LOOK = """
import gc, json, os, re, sys, threading
status = open('/proc/self/status').read()
streams = [sys.stdin, sys.stdout, sys.stderr]
json.dump({
    'arguments': sys.argv, 'flags': list(sys.flags),
    'path': sys.path, 'main': sys.modules['__main__'].__file__, 'folder': os.getcwd(),
    'environ': dict(os.environ), 'parent': os.getppid(), 'leads': os.getsid(0) == os.getpid(),
    'status': re.findall(r'(?:Umask|Sig...|Threads|NoNewPrivs):.*', status), 'gc': gc.isenabled(),
    'fds': {fd: os.readlink('/proc/self/fd/' + fd) for fd in os.listdir('/proc/self/fd')
            if os.path.exists('/proc/self/fd/' + fd)},
    'streams': [[s.encoding, s.errors, s.line_buffering, s.isatty(), s.name] for s in streams],
    'threads': threading.active_count(), 'text': sys.stdin.read(),
}, sys.stdout)
"""


@pytest.fixture(autouse=True)
def warm(tmp_path: Path) -> None:
    """The first program of its kind is not forked."""
    for _ in range(2):
        with WarmProcess(script(tmp_path, "pass")) as process:
            process.wait(30.0)


def script(folder: Path, code: str) -> list[str]:
    """The command that runs this code."""
    (folder / "script.py").write_text(code)
    return [*PYTHON, str(folder / "script.py")]


def seen(kind: type[subprocess.Popen[bytes]], folder: Path, **options: Any) -> dict[str, Any]:
    """What a program sees that is started with these options."""
    (folder / "in").write_text("what comes in")
    command = script(folder, LOOK)
    with (
        (folder / "in").open() as stdin,
        (folder / "out").open("wb") as out,
        kind([*command, "one", "two"], stdin=stdin, stdout=out, cwd=folder, **options) as process,
    ):
        assert process.wait(30.0) == 0
        assert isinstance(process, WarmProcess) == getattr(process, "is_warm", False)
    found = json.loads((folder / "out").read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("new_session", [False, True])
def test_it_sees_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_session: bool
) -> None:
    monkeypatch.setenv("SILOMQ_OF_A_TEST", "1")
    read, write = os.pipe()
    before = os.umask(0o027)
    try:
        options = {
            "start_new_session": new_session, "pass_fds": (read,), "env": dict(os.environ)
        }  # fmt: skip
        forked = seen(WarmProcess, tmp_path, **options)
        started = seen(subprocess.Popen, tmp_path, **options)
    finally:
        os.umask(before)
        os.close(read)
        os.close(write)
    assert forked == started
    assert forked["parent"] == os.getpid()
    assert str(read) in forked["fds"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("pass", 0),
        ("import sys; sys.exit(5)", 5),
        ("import sys; sys.exit('why')", 1),
        ("import os; os._exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import atexit, os; atexit.register(os._exit, 9)", 9),
    ],
)
def test_it_ends_with_the_same_status(tmp_path: Path, code: str, status: int) -> None:
    with WarmProcess(script(tmp_path, code), stderr=subprocess.PIPE) as process:
        assert process.is_warm
        assert process.wait(30.0) == status
        assert process.stderr is not None
        assert (process.stderr.read() == b"why\n") == ("why" in code)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([b"\xff"], {}),
        ([], {"env": {**os.environ, "SILOMQ_TEXT": "\udcff"}}),
        ([], {"env": {**os.environ, "SILOMQ_DISK_RECORD": ""}}),
        ([], {"umask": 0o077}),
        ([], {"preexec_fn": os.getpid}),
    ],
)
def test_what_only_an_interpreter_can_have_starts_one(
    tmp_path: Path, arguments: list[bytes], options: dict[str, Any]
) -> None:
    code = """
import os, sys
print([*map(os.fsencode, sys.argv[1:])], os.environb.get(b"SILOMQ_TEXT"))
"""
    command: list[str | bytes] = [*script(tmp_path, code), *arguments]
    with WarmProcess(command, stdout=subprocess.PIPE, **options) as process:
        assert not process.is_warm
        assert process.stdout is not None
        text = b"\xff" if "SILOMQ_TEXT" in options.get("env", {}) else None
        assert process.stdout.read().decode() == f"{arguments} {text!r}\n"


def test_it_is_signalled_as_any_other(tmp_path: Path) -> None:
    code = "import time\nprint('there', flush=True)\nwhile True: time.sleep(0.01)"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        pipe = subprocess.PIPE
        with WarmProcess(script(tmp_path, code), stdout=pipe, stderr=pipe) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"there\n"
            assert process.poll() is None
            process.send_signal(number)
            # Python ends by the signal when nobody heeds Ctrl-C.
            assert process.wait(30.0) == -number
