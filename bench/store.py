"""A real store for benchmarks, in a folder that is removed at the end."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ..client.admin.admin import Admin
from ..shm.control import Control
from ..store.errors import StoreError

_START_S = 60.0
_QUIET_S = 60.0
_LAST_PAGES = 4 * 4096


class BenchStore:
    """Runs a store with `settings` (NAME=VALUE) in a new folder below `parent`. Stops and removes
    it at the end.
    """

    def __init__(self, parent: Path, *settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="silomq-bench-", dir=parent))
        command = [sys.executable, "-m", "silomq.supervisor", f"store_path={self.folder}"]
        self.command = [*command, "log_level=error", *settings]
        self.process = subprocess.Popen(self.command)
        self.admin = self._connect()

    def restart(self, *, kill: bool) -> float:
        """Stops the store, with SIGKILL for all its processes if `kill`, and starts it. Returns
        seconds until it serves.
        """
        import psutil

        self.admin.close()
        if kill:
            children = psutil.Process(self.process.pid).children()
            self.process.kill()
            psutil.wait_procs(children, 30)
        else:
            self.process.terminate()
        self.process.wait(60)
        start = time.perf_counter()
        self.process = subprocess.Popen(self.command)
        self.admin = self._connect(0.002)
        return time.perf_counter() - start

    def _connect(self, every_s: float = 0.05) -> Admin:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                return Admin(self.folder)
            except StoreError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise
                time.sleep(every_s)

    @property
    def control(self) -> Control:
        return self.admin.control

    def settle(self, ahead_bytes: int = 0) -> None:
        """Waits until the store is idle: all is dispatched and flushed, and at least `ahead_bytes`
        bytes of files are made and warm.
        """
        control = self.control
        deadline = time.monotonic() + _QUIET_S
        while time.monotonic() < deadline:
            wrote, ready = control.load("wrote"), control.load("ready")
            # The last pages are flushed only by the thorough interval, so this does not wait for
            # them.
            done = control.load("dispatched") == wrote <= control.load("flushed") + _LAST_PAGES
            warm = control.load("warmed") >= ready and ready - wrote >= ahead_bytes
            if done and warm:
                break
            time.sleep(0.05)
        time.sleep(1.2)  # append maps warm files when it is idle

    def wait_dispatched(self) -> None:
        control = self.control
        while control.load("dispatched") < control.load("wrote"):
            time.sleep(0.0002)

    def cpu_seconds(self) -> float:
        """CPU time that the store's processes have used so far."""
        import psutil

        supervisor = psutil.Process(self.process.pid)
        total = 0.0
        for process in (supervisor, *supervisor.children()):
            used = process.cpu_times()
            total += used.user + used.system
        return total

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.admin.close()
        self.stop()
