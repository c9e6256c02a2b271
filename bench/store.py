"""A real store for benchmarks, in a folder that is removed at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from ..client.admin.admin import Admin
from ..client.producing.producer import Producer
from ..shm.control import Control
from ..store.errors import StoreError

_START_S = 60.0
_QUIET_S = 60.0
_LAST_PAGES = 4 * 4096
_REST_S = 0.3  # allocate warms far more than one chunk in this time


class BenchStore:
    """Runs a store with `settings` (NAME=VALUE) in a new folder below `parent`. Stops and removes
    it at the end. With `probe` each start sends a message, and takes until that is stored.
    """

    def __init__(self, parent: Path, *settings: str, probe: bool = False) -> None:
        self.probe = probe
        self.folder = Path(tempfile.mkdtemp(prefix="silomq-bench-", dir=parent))
        command = [sys.executable, "-m", "silomq.supervisor", f"store_path={self.folder}"]
        self.command = [*command, "log_level=error", *settings]
        self.started_s = self._start()

    def _start(self) -> float:
        """Starts the store. Returns seconds until it serves, with `probe` until it has taken a
        message.
        """
        start = time.perf_counter()
        self.process = subprocess.Popen(self.command)
        self.admin = self._connect(0.002)
        if self.probe:
            with Producer(self.folder) as producer:
                producer.send("bench-starts", b"x")
        return time.perf_counter() - start

    def restart(self, *, kill: bool, cold: bool = False) -> float:
        """Stops the store, with SIGKILL for all its processes if `kill`, and starts it; if `cold`,
        with none of its files in the page cache. Returns seconds as `_start`.
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
        if cold:
            self._evict()
        return self._start()

    def _evict(self) -> None:
        """Removes all files of the stopped store from the page cache."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                fd = os.open(path, os.O_RDONLY)
                os.fdatasync(fd)  # only clean pages can be removed
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def _connect(self, every_s: float) -> Admin:
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

    def settle(self) -> None:
        """Waits until the store is idle: all is dispatched and flushed, and allocate has made and
        warmed what it wants ahead.
        """
        control = self.control
        deadline = time.monotonic() + _QUIET_S
        before = (-1, -1)
        while time.monotonic() < deadline:
            wrote = control.load("wrote")
            # The last pages are flushed only by the thorough interval, so this does not wait for
            # them.
            done = control.load("dispatched") == wrote <= control.load("flushed") + _LAST_PAGES
            now = control.load("ready"), control.load("warmed")
            if done and now == before:
                break
            before = now
            time.sleep(_REST_S)
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
