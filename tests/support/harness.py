"""A store in processes of its own, for tests that use, kill and freeze it and look inside.

What a test must know of a store does not come from its registry: process numbers and positions come
from the control block, which outlives every actor.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Self

import psutil
import pytest
from support import warm
from support.small_settings import SMALL, pairs

from silomq import Admin, StoreError
from silomq.shm import segments
from silomq.shm._memory import Mapping
from silomq.shm.control import ACTORS, SIZE, ActorState, Control
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Mapping as MappingType
    from pathlib import Path
    from types import TracebackType

#: Marks of a long form: `make torture` runs it.
LONG = (
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("SILOMQ_LONG") != "1", reason="long: needs SILOMQ_LONG=1"),
)
PYTHON = warm.PYTHON
WAIT_S = 30.0


def eventually(true: Callable[[], object], what: str, timeout_s: float = WAIT_S) -> None:
    """Waits until `true()` is so."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.002)


def tries_within(seconds: float, action: Callable[[], object]) -> int:
    """How often `action()` was done until it took less than `seconds`. Three times is too often: a
    busy machine holds one of them up, a design that waits for something else holds up all.
    """
    taken: list[float] = []
    while len(taken) < 3:
        began = time.monotonic()
        action()
        taken.append(time.monotonic() - began)
        if taken[-1] < seconds:
            return len(taken)
    raise AssertionError(f"not once within {seconds:g} s: {taken}")


def lives(pid: int) -> bool:
    """Whether the process runs; one that nobody has collected yet does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_now(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Signals a process of a store; False when it was gone already: then its number may be 0, which
    would mean all processes of the group.
    """
    if pid == 0:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def connect(store: Path, process: subprocess.Popen[bytes]) -> Admin:
    """A session with the store that `process` starts, as soon as the store takes sessions."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return Admin(store)
        except StoreError:
            assert process.poll() is None, f"the store ended with status {process.returncode}"
            assert time.monotonic() < deadline, "the store is not up"
            time.sleep(0.005)


def memory_of(store: Path) -> list[str]:
    """What is in /dev/shm of the store in this folder."""
    return segments.leftovers(segments.store_identity(store))


#: The supervisor, for `python -c`.
_RUN = """
import sys
from silomq.supervisor.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
#: Where this process has started stores.
started: set[Path] = set()


class StoreProcess:
    """One store below `folder`, with the settings `base` and those of the caller.

    `environ` is added to the store's environment. As a context manager it starts the store and at
    the end stops it, which must succeed; after a failure it kills it. `start` may be called again
    after `stop` or `crash`.

    The supervisor first runs the Python code `planted`: a planted defect or delay. With
    `with_broker` the store has a broker beside it.
    """

    planted = ""
    with_broker = False

    def __init__(
        self,
        folder: Path,
        *,
        environ: MappingType[str, str] | None = None,
        base: MappingType[str, object] = SMALL,
        **settings: object,
    ) -> None:
        self.path = folder
        self.settings = {**base, **settings}
        self.environ = dict(environ or {})
        #: Descriptors that the store inherits.
        self.pass_fds: tuple[int, ...] = ()
        self.log_path = folder.parent / f"{folder.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._control: Control | None = None

    @property
    def command(self) -> list[str]:
        if self.with_broker:
            where = ["--store", str(self.path), "--listen", "127.0.0.1:0"]
            sets = [word for pair in pairs(self.settings) for word in ("--set", pair)]
            return [*PYTHON, "-m", "silomq.cli.main", "serve", *where, *sets]
        run = ["-m", "silomq.supervisor"]
        if self.planted:
            run = ["-c", f"{self.planted}\n{_RUN}"]
        return [*PYTHON, *run, f"store_path={self.path}", *pairs(self.settings)]

    def launch(self) -> subprocess.Popen[bytes]:
        """Starts the supervisor and does not wait for anything."""
        started.add(self.path)
        with self.log_path.open("ab") as out:
            self.process = warm.WarmProcess(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.log_path.parent,
                env={**os.environ, **self.environ},
                pass_fds=self.pass_fds,
            )
        self._control = None
        return self.process

    def start(self) -> Self:
        """Starts the store and waits until it takes sessions."""
        process = self.launch()
        try:
            connect(self.path, process).close()
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.log()}") from None
        eventually(lambda: self.control.load("state") == 1, "the store runs")
        return self

    def log(self) -> str:
        """The end of what the store has said so far."""
        return self.log_path.read_text(errors="replace")[-6000:]

    # -- looking inside

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """The supervisor's process."""
        assert self.process is not None
        return self.process

    @property
    def store_id(self) -> int:
        return segments.store_identity(self.path)

    @property
    def control(self) -> Control:
        """The store's control block, mapped read-only."""
        if self._control is None:
            fd = segments.open_segment(self.store_id, "control")
            self._control = Control(Mapping(fd, 0, SIZE, False))
            os.close(fd)
        return self._control

    @property
    def table(self) -> TopicTable:
        """The store's topic table, mapped read-only."""
        fd = segments.open_segment(self.store_id, "table")
        table = TopicTable(Mapping(fd, 0, os.fstat(fd).st_size, False))
        os.close(fd)
        return table

    def pid(self, actor: str) -> int:
        """An actor's process number; 0 while it is dead."""
        return self.control.process(ACTORS.index(actor))[0]

    def starts(self, actor: str) -> int:
        """How often the actor was started."""
        return self.control.process(ACTORS.index(actor))[1]

    def pids(self) -> dict[str, int]:
        return {actor: self.pid(actor) for actor in ACTORS}

    def is_ready(self, actor: str, *, but_not: int = 0) -> bool:
        """Whether the actor serves, as a process other than `but_not`."""
        pid, _, _, state = self.control.process(ACTORS.index(actor))
        return state == ActorState.READY and pid not in (0, but_not)

    def all_ready(self) -> bool:
        return all(self.is_ready(actor) for actor in ACTORS)

    def await_beat(self, actor: str) -> None:
        """Waits until the actor has begun another round."""
        beat = self.control.beat(actor)
        seen = beat.load()
        eventually(lambda: beat.load() != seen, f"{actor} works")

    def await_dispatch(self) -> None:
        """Waits until everything that was appended is in its queues and in the index."""
        control = self.control
        try:
            eventually(lambda: control.load("dispatched") >= control.load("wrote"), "dispatch")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.log()}") from None

    # -- doing things to it

    def kill(self, actor: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Signals an actor, waiting for it to exist if it is just being replaced: its pid."""
        found: list[int] = []

        def runs() -> bool:
            found.append(self.pid(actor))
            return found[-1] > 0

        eventually(runs, f"{actor} runs")
        kill_now(found[-1], number)
        return found[-1]

    def replace(self, actor: str) -> int:
        """Kills an actor and waits until the next one serves: its pid."""
        pid = self.kill(actor)
        self.await_successor(actor, pid)
        return self.pid(actor)

    def await_successor(self, actor: str, pid: int, timeout_s: float = WAIT_S) -> None:
        """Waits until the actor serves as another process than `pid`."""
        eventually(lambda: self.is_ready(actor, but_not=pid), f"{actor} is replaced", timeout_s)

    def stop(self) -> str:
        """SIGTERM; asserts a clean end with nothing left behind. Returns the log's end."""
        family = self.family()
        self.running.send_signal(signal.SIGTERM)
        assert self.running.wait(WAIT_S) == 0, self.log()
        assert not [pid for pid in family if lives(pid)], "a process outlived its store"
        assert memory_of(self.path) == []
        assert "Traceback" not in self.log()
        return self.log()

    def crash(self) -> None:
        """Kills every process of the store, as nearly at once as one can."""
        for pid in self.family():
            kill_now(pid)
        self.running.wait(WAIT_S)
        eventually(lambda: not any(lives(p) for p in self.family()), "the processes are dead", 5)

    def family(self) -> list[int]:
        """The supervisor and its children."""
        if self.running.poll() is not None:
            return []
        try:
            children = psutil.Process(self.running.pid).children()
        except psutil.NoSuchProcess:
            return []
        return [self.running.pid, *(child.pid for child in children)]

    def clean_up(self) -> None:
        """Whatever happened: no process and no shared memory stays."""
        if self.process is not None and self.process.poll() is None:
            # A frozen child would not see its parent's death.
            for pid in self.family():
                kill_now(pid, signal.SIGCONT)
            self.crash()
        if self.path.is_dir():
            segments.remove_all(self.store_id)

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
                self.stop()
        finally:
            self.clean_up()
            if kind is not None:
                print(f"--- log of {self.path}\n{self.log()}")  # pytest shows it
