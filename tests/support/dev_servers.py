"""`silo dev` and `silo serve --listen` as processes, and what they leave behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil
from interop.conformance.requests import bodies, pull, send
from support.commands import SILO
from support.harness import WAIT_S, eventually, kill_now, lives, memory_of
from support.remoting_client import RemotingClient

from silomq.shm import segments

if TYPE_CHECKING:
    from types import TracebackType

ANY_PORT = "127.0.0.1:0"


class DevServer:
    """`silo` with these arguments, in a session and a temporary folder of its own. As a context
    manager it starts the command and ends it by SIGTERM, which must leave no process.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.command = [*SILO, *arguments]
        self.temporary = folder / "temporary"
        self.log_path = folder / "dev.log"
        self.process: subprocess.Popen[str] | None = None
        self.address = ""
        self.store = Path()
        #: From the start of the command until it said that it is ready.
        self.ready_s = 0.0
        self._family: list[int] = []
        self._identity: int | None = None
        #: The store's folder. While it is open, no other store gets its number.
        self._folder: int | None = None

    def launch(self) -> Self:
        """Starts it and does not wait."""
        self.temporary.mkdir(exist_ok=True)
        with self.log_path.open("ab") as out:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True,
                env={**os.environ, "TMPDIR": str(self.temporary)}, start_new_session=True,
            )  # fmt: skip
        return self

    def start(self) -> Self:
        """Starts `silo dev`, and waits until it says where it is."""
        began = time.monotonic()
        self.launch()
        assert self.running.stdout is not None
        first, second = self.running.stdout.readline(), self.running.stdout.readline()
        self.ready_s = time.monotonic() - began
        found = re.fullmatch(r"NAMESRV_ADDR=(\S+)\nSILOMQ_STORE_PATH=(.+)\n", first + second)
        assert found is not None, self.log()
        return self.at(found[1], Path(found[2]))

    def at(self, address: str, store: Path) -> Self:
        """Notes where it is, and its processes."""
        self.address, self.store = address, store
        self._identity = segments.store_identity(store)
        if self._folder is None:
            self._folder = os.open(store, os.O_RDONLY | os.O_DIRECTORY)
        self._family = self.family()
        return self

    @property
    def running(self) -> subprocess.Popen[str]:
        assert self.process is not None
        return self.process

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def family(self) -> list[int]:
        """All its processes."""
        try:
            children = psutil.Process(self.running.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [self.running.pid, *(child.pid for child in children)]

    def pid(self, name: str) -> int:
        """The process of this name: "supervisor", "broker", or an actor's. A new process has the
        title of the one that forked it until it sets its own.
        """

        def found() -> list[int]:
            return [pid for pid in self.family() if _title(pid).endswith(f"] {name}")]

        eventually(lambda: len(found()) == 1, f"one process is {name}")
        return found()[0]

    def runs(self, name: str, *, but_not: int) -> bool:
        """Whether a process of this name runs that is another one."""
        return any(_title(pid).endswith(f"] {name}") and pid != but_not for pid in self.family())

    def connect(self) -> RemotingClient:
        return RemotingClient(self.address)

    def exchange(self, topic: str) -> None:
        """Sends a message to a topic and reads it again."""
        with self.connect() as client:
            answer = send(client, topic, b"hello")
            assert answer.code == 0, answer.remark
            offset = int(answer.fields["queueOffset"])
            eventually(lambda: bodies(pull(client, "g", topic, offset)) == [b"hello"], "it comes")

    def wait(self) -> int:
        """Its exit status."""
        return self.running.wait(WAIT_S)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signals its process group, as a terminal does. The exit status."""
        os.killpg(self.running.pid, number)
        return self.wait()

    def nothing_runs(self) -> bool:
        return not any(lives(pid) for pid in self._family)

    def left(self) -> list[str]:
        """Its processes, shared memory and temporary folders that are still there."""
        running = [f"process {pid}: {_title(pid)}" for pid in self._family if lives(pid)]
        memory = [] if self._identity is None else segments.leftovers(self._identity)
        return [*running, *memory, *map(str, self.temporary.iterdir())]

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.clean_up()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self.running.poll() is None:
                assert self.stop() == 0, self.log()
                assert self.nothing_runs(), "a process outlived its command"
                assert "Traceback" not in self.log(), self.log()
        finally:
            self.clean_up()
            if kind is not None:
                print(f"--- log of {self.command}\n{self.log()[-6000:]}")

    def clean_up(self) -> None:
        """Whatever happened: no process and no shared memory stays."""
        for pid in {*self._family, *self.family()}:
            if lives(pid):
                kill_now(pid)
        if self.process is not None:
            self.process.wait(WAIT_S)
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()
        eventually(self.nothing_runs, "all have ended")
        if self._identity is not None:
            segments.remove_all(self._identity)
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None
        for path in self.temporary.glob("*"):
            assert memory_of(path) == []


def _title(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline()).strip()
    except psutil.Error:
        return ""
