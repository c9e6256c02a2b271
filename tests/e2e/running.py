"""Real stores and real commands for end-to-end tests."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from silomq import Admin, StoreError
from silomq.shm import segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PYTHON = (sys.executable, "-P")
SILO = (*PYTHON, "-m", "silomq.cli.main")
#: Small files: a store takes 30 MB of disk.
SMALL = (
    "mapped_file_size_commit_log=8388608",
    "max_hash_slot_num=10000",
    "max_index_num=40000",
    "clean_file_forcibly_enable=false",
)
SMALL_OPTIONS = tuple(word for setting in SMALL for word in ("--set", setting))
WAIT_S = 30.0


def silo(
    *arguments: str, store: Path | None = None, stdin: bytes = b"", status: int | None = 0
) -> subprocess.CompletedProcess[bytes]:
    """Runs `silo` to its end and checks its exit status; a failure says one line on stderr."""
    where = () if store is None else ("--store", str(store))
    done = subprocess.run(
        [*SILO, *arguments, *where], input=stdin, capture_output=True, timeout=60, check=False
    )
    if status is not None:
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert b"Traceback" not in done.stderr
    return done


def sentence(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line that a failed command says; nothing went to stdout."""
    text = done.stderr.decode()
    assert text.startswith("silo: "), text
    assert text.endswith("\n"), text
    assert text.count("\n") == 1, text
    assert done.stdout == b""
    return text


def connect(store: Path, process: subprocess.Popen[bytes]) -> Admin:
    """Waits until the store takes sessions."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return Admin(store)
        except StoreError:
            assert process.poll() is None, f"the store ended with status {process.returncode}"
            assert time.monotonic() < deadline, "the store is not up"
            time.sleep(0.01)


def assert_nothing_left(store: Path) -> None:
    """No shared memory and no semaphores of the store exist."""
    assert segments.leftovers(segments.store_identity(store)) == []


@contextlib.contextmanager
def running(store: Path, *settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """A store in a process of its own; stopped with SIGTERM, which must leave nothing behind."""
    log = store.parent / f"{store.name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*PYTHON, "-m", "silomq.supervisor", f"store_path={store}", *SMALL, *settings],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        connect(store, process).close()
        yield process
        process.terminate()
        assert process.wait(WAIT_S) == 0, log.read_text()[-2000:]
        assert_nothing_left(store)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        # A killed supervisor leaves its memory to the next start.
        segments.remove_all(segments.store_identity(store))
