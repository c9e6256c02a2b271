"""`silo broker` as a process of its own, beside a store."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING, Self

from support.commands import SILO
from support.harness import WAIT_S, eventually, kill_now
from support.warm import WarmProcess

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_RUNNING = re.compile(r'"broker running", "address": "([^"]+)"')


class BrokerProcess:
    """`silo broker` for the store at `store`, at the store's own address, with these settings
    (NAME=VALUE). As a context manager it starts the broker and ends it, which must be clean.
    """

    def __init__(self, store: Path, *settings: str, listen: str | None = None) -> None:
        self.store = store
        self.log_path = store.parent / f"{store.name}-broker.log"
        self.command = [*SILO, "broker", "--store", str(store)]
        for setting in settings:
            self.command += ["--set", setting]
        if listen is not None:
            self.command += ["--listen", listen]
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def start(self) -> Self:
        """Starts it, and waits until it listens."""
        begin = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as out:
            self.process = WarmProcess(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        eventually(lambda: _RUNNING.search(self.log()[begin:]) or self.ended, "the broker runs")
        found = _RUNNING.search(self.log()[begin:])
        assert found is not None, self.log()
        self.address = found[1]
        return self

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    @property
    def ended(self) -> bool:
        return self.running.poll() is not None

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        kill_now(self.running.pid)
        self.running.wait()

    def stop(self) -> str:
        """Ends it by SIGTERM, which must be clean. Returns its log."""
        self.running.send_signal(signal.SIGTERM)
        assert self.running.wait(WAIT_S) == 0, self.log()
        assert "Traceback" not in self.log(), self.log()
        return self.log()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and not self.ended:
                self.stop()
        finally:
            if not self.ended:
                self.kill()
            if kind is not None:
                print(f"--- log of {self.command}\n{self.log()[-6000:]}")
