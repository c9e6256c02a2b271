"""The demo's two other processes, the store and the consumer. Both end with the demo."""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...client.admin.admin import Admin
from ...store.errors import StoreError

_START_S = 30.0
_STOP_S = 30.0
_STUCK_S = 20.0
_PR_SET_PDEATHSIG = 1
# Small files: the demo needs about 0.5 GB of disk.
_SETTINGS = (
    "mapped_file_size_commit_log=67108864",
    "max_hash_slot_num=500000",
    "max_index_num=2000000",
)


class DemoFailed(Exception):
    """A result of the demo is wrong; the message says which."""


def _die_with_parent() -> None:
    """In the child: asks for SIGTERM when the demo dies, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Server:
    """A `silo serve` process with its store in `folder`; its log goes to a file beside the data."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log = folder / "silo-serve.log"
        options = [word for setting in _SETTINGS for word in ("--set", setting)]
        module = [sys.executable, "-P", "-m", "silomq.cli.main"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [*module, "serve", "--store", str(folder), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C must only reach the demo's own process
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - no threads exist yet
            )

    def connect(self) -> Admin:
        """Waits until the store accepts connections. Raises DemoFailed."""
        deadline = time.monotonic() + _START_S
        while True:
            try:
                return Admin(self.folder)
            except StoreError as error:
                if self.process.poll() is not None:
                    raise DemoFailed(f"the store did not start: {self._last_words()}") from error
                if time.monotonic() > deadline:
                    raise DemoFailed(f"the store is not up after {_START_S:g} s") from error
                time.sleep(0.02)

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        return said[-1] if said else f"exit status {self.process.returncode}"

    def stop(self) -> float:
        """Stops the store in order. Returns how long that took, in seconds. Raises DemoFailed."""
        began = time.monotonic()
        self.process.terminate()
        try:
            status = self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired as error:
            raise DemoFailed(f"the store did not stop within {_STOP_S:g} s") from error
        if status != 0:
            raise DemoFailed(f"the store stopped with status {status}: {self._last_words()}")
        return time.monotonic() - began

    def end(self) -> None:
        """Ends the store after any outcome, so that no process is left behind."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()  # its actors end with it
                self.process.wait()


class Reader:
    """The consumer process, and a thread that reads its reports."""

    def __init__(self, store: Path, starts: dict[str, dict[int, int]]) -> None:
        self.read = 0
        self.result: dict[str, Any] | None = None
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "silomq.cli.demo.reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        assert self.process.stdin is not None
        self.stdin = self.process.stdin
        self.stdin.write(json.dumps({"store": str(store), "starts": starts}) + "\n")
        self.stdin.flush()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()
        self.ready.wait(_START_S)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "queues" in message:
                self.result = message
            self.read = message.get("read", message.get("messages", 0))
            self.ready.set()
        self.ready.set()

    def rest(self) -> Iterator[int]:
        """Tells the consumer that all is sent. Yields its count until it has read the rest. Raises
        DemoFailed.
        """
        self.stdin.close()
        seen, since = self.read, time.monotonic()
        while self.process.poll() is None:
            time.sleep(0.02)
            yield self.read
            if self.read != seen:
                seen, since = self.read, time.monotonic()
            elif time.monotonic() - since > _STUCK_S:
                raise DemoFailed(
                    f"the consumer has got nothing for {_STUCK_S:g} s, after {seen} messages"
                )
        self.thread.join()
        yield self.read

    def end(self) -> None:
        """Ends the consumer after any outcome, so that no process is left behind."""
        with contextlib.suppress(OSError):
            self.stdin.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
