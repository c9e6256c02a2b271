"""The workers of a run: started, heard, ended."""

from __future__ import annotations

import contextlib
import selectors
import subprocess
import time
from typing import TYPE_CHECKING, Self

import msgspec

from ..load.protocol import Done, Ready, Said, Tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

    from ..load.protocol import Order

_READY_S = 120.0
_END_S = 20.0
_PIECE = 1 << 20
_SHOWN = 2000
_DECODER = msgspec.json.Decoder(Said)


class WorkerFailed(RuntimeError):
    """A worker ended too soon, or said what no worker says: which one, and its last words."""


class Worker:
    """One process, and what it has said."""

    def __init__(self, command: list[str], order: Order, log: Path) -> None:
        self.order = order
        self.ready: Ready | None = None
        self.done: Done | None = None
        self._log = log
        self._rest = b""
        with log.open("wb") as errors:
            # A process group of its own: Ctrl-C at a terminal is for the harness, which ends its
            # workers. No session of its own: the kernel would give each session as much of the CPU
            # (autogroups), all processes of the server together no more than one worker.
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                process_group=0,
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout

    @property
    def name(self) -> str:
        """As in "produce 0"."""
        group = f" of {self.order.group}" if self.order.group else ""
        return f"worker {self.order.role} {self.order.index}{group}"

    def tell(self, line: bytes) -> None:
        """Writes to its standard input. Raises WorkerFailed."""
        try:
            self.input.write(line + b"\n")
            self.input.flush()
        except OSError:
            raise self.failure("has ended") from None

    def end(self) -> None:
        """Asks it to end in order."""
        with contextlib.suppress(OSError):
            self.input.close()

    def hear(self) -> Iterator[Said]:
        """What has come. Raises WorkerFailed."""
        piece = self.output.read1(_PIECE)  # type: ignore[attr-defined]
        if not piece:
            if self.done is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(1)
                status = self.process.poll()
                raise self.failure(f"has ended before its work was done (status {status})")
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            try:
                said = _DECODER.decode(line)
            except msgspec.DecodeError as error:
                raise self.failure(f"has said {line[:100]!a} ({error})") from None
            if isinstance(said, Ready):
                self.ready = said
            elif isinstance(said, Done):
                self.done = said
            yield said

    def failure(self, what: str) -> WorkerFailed:
        """An error with its last words."""
        said = self._log.read_text(errors="replace")[-_SHOWN:].strip()
        return WorkerFailed(f"{self.name} {what}" + (f"; its last words: {said}" if said else ""))


class Crew:
    """Some workers that begin together. All have ended behind the `with` block."""

    def __init__(self, command: list[str], orders: Iterable[Order], folder: Path) -> None:
        self.workers: list[Worker] = []
        self._selector = selectors.DefaultSelector()
        with contextlib.ExitStack() as ends:
            ends.callback(self.close)
            for order in orders:
                log = folder / f"{order.role}-{order.group}-{order.index}.err"
                worker = Worker(command, order, log)
                self.workers.append(worker)
                self._selector.register(worker.output, selectors.EVENT_READ, worker)
                worker.tell(msgspec.json.encode(order))
            ends.pop_all()

    def wait_ready(self, keep_on: Callable[[], None]) -> None:
        """Waits until all workers are connected; `keep_on` may raise meanwhile. Raises
        WorkerFailed.
        """
        deadline = time.monotonic() + _READY_S
        while missing := [one for one in self.workers if one.ready is None]:
            keep_on()
            for _ in self.hear(0.1):
                pass
            if time.monotonic() > deadline:
                raise missing[0].failure(f"is not ready after {_READY_S:.0f} s")

    def go(self, start: int) -> None:
        """Tells the start, ns of CLOCK_MONOTONIC."""
        for worker in self.workers:
            worker.tell(str(start).encode())

    def hear(self, timeout_s: float) -> Iterator[tuple[Worker, Tick]]:
        """The ticks that come within a time. Raises WorkerFailed."""
        if not self._selector.get_map():
            time.sleep(timeout_s)
            return
        for key, _ in self._selector.select(timeout_s):
            worker: Worker = key.data
            for said in worker.hear():
                if isinstance(said, Tick):
                    yield worker, said
            if worker.done is not None:
                self._selector.unregister(worker.output)

    @property
    def is_done(self) -> bool:
        """Whether all workers have said their last line."""
        return all(worker.done is not None for worker in self.workers)

    def end(self) -> None:
        """Asks all workers to end in order."""
        for worker in self.workers:
            worker.end()

    def close(self) -> None:
        """Ends what is left."""
        self.end()
        deadline = time.monotonic() + _END_S
        for worker in self.workers:
            try:
                if worker.done is None:  # nobody will hear it out
                    worker.process.kill()
                worker.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.output.close()
        self._selector.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
