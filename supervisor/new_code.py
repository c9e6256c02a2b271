"""Replaces the code of a running store: `silo reload --code`.

A process is forked from the supervisor, so it has the supervisor's code. New code needs an
interpreter of its own, and the supervisor is the last that gets it:

1. **Rehearsal.** A process of the new code imports everything and takes over the state of the
   supervisor, but for doing anything. If it fails, or its layouts are others (`layouts.py`),
   nothing has been touched.
2. **Actors.** For each actor a process of the new code is started. When it has imported everything
   it takes the place of the running one (`replacing.py`): the work stands still no longer than
   after a kill.
3. **Trial.** All of them must run for some seconds. If one of them does not begin to serve, or
   ends, all are forked again from the supervisor, which has the old code in memory.
4. **Supervisor.** After a second rehearsal it executes the new code in its own place. The process
   stays the same, so the actors stay its children, and it keeps lock, socket and sessions.

A supervisor that is killed meanwhile takes all its children with it, those of the new code too, as
always. The old code lies in memory alone, so no module may be imported after the start; a test
looks for such imports.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..actors.signals import HANDLED
from ..conf.logging import tell_repeats
from ..shm.control import ACTORS
from . import handover
from .candidate import Candidate, Hello, NotUp, interpreter
from .changes import RunningChange
from .child import Child
from .children import Children
from .handover import HandedActor, HandedStore, Passed
from .layouts import differences, marks
from .replacing import Replacing, how_it_ended

#: A process of new code gets so long to begin its work (s), and more in a store in which that takes
#: long. Clients wait meanwhile, by default for 10 s.
_READY_S: Final = 5.0
_SLOWER: Final = 4
#: How long actors may take to be ready before a change of code begins (s).
_ALL_READY_S: Final = 30.0
#: How long the end of a failed change waits for the old code (s).
_BACK_S: Final = 10.0
_UNTOUCHED: Final = "nothing was changed"
_TAKEN_BACK: Final = "all processes run the old code again"


class NotReplaced(Exception):
    """The store runs its old code. The text says why, and what was changed."""


class NewCode:
    """Changes the code of a store: first that of `children`, then this process.

    `turn` is a turn of the supervisor's loop, and `is_stopping` whether the store is to stop.
    `pack` makes the supervisor's state for a change.
    """

    def __init__(
        self,
        children: Children,
        replacing: Replacing,
        turn: Callable[[float], None],
        is_stopping: Callable[[], bool],
        *,
        pack: Callable[[RunningChange], tuple[HandedStore, list[int]]],
        logger: Any,
    ) -> None:
        self._world = children.world
        self._children = children
        self._replacing = replacing
        self._turn = turn
        self._is_stopping = is_stopping
        self._pack = pack
        self._logger = logger
        self._candidate: Candidate | None = None

    def fds(self) -> list[int]:
        """The descriptors of a process of new code that waits."""
        return [] if self._candidate is None else self._candidate.fds

    def change_code(self, change: RunningChange) -> None:
        """Replaces the actors, then this process: returns only by raising NotReplaced, GaveUp."""
        self._replacing.stalls_ms.clear()
        release = self._rehearse(change, _UNTOUCHED)
        change.say(f"the new code is release {release.release} in {release.place}")
        self._await_all_ready()
        began: dict[str, Child] = {}
        try:
            for name in ACTORS:
                began[name] = self._renew(name, release)
                stall = self._replacing.stalls_ms[name]
                change.say(f"{name} runs the new code: its work stood still for {stall:.1f} ms")
            self._try_out(began, change)
            self._rehearse(change, _TAKEN_BACK, release)
            change.say("the supervisor executes the new code")
            self._execute(change)
        except (NotUp, NotReplaced, OSError) as error:
            self._take_back(began)
            why = str(error)
            raise NotReplaced(why if _TAKEN_BACK in why else f"{why}; {_TAKEN_BACK}") from error

    # -- rehearsal

    def _rehearse(self, change: RunningChange, so_far: str, before: Hello | None = None) -> Hello:
        """What the new code is. `before` is what it was in an earlier rehearsal. Raises
        NotReplaced.
        """
        try:
            candidate = self._candidate = Candidate("rehearsal", self._turn)
        except OSError as error:
            raise NotReplaced(f"cannot start a process: {error.strerror}; {so_far}") from error
        try:
            hello = candidate.hello()
            if before not in (None, hello):
                raise NotReplaced(f"the code on the disk has changed again meanwhile; {so_far}")
            differing = differences(marks(), hello.marks)
            if differing:
                shown = ", ".join(differing[:4]) + (" and others" if len(differing) > 4 else "")
                raise NotReplaced(
                    f"release {hello.release} cannot run beside the running one, because these "
                    f"differ: {shown}; {so_far}: stop the store, then start it with the new code"
                )
            handed, fds = self._pack(change)
            verdict = candidate.verdict(msgspec.json.encode(handed), fds)
            if verdict.why:
                raise NotReplaced(
                    f"the new code cannot take over the running store: {verdict.why}; {so_far}"
                )
        except NotUp as error:
            raise NotReplaced(f"{error}; {so_far}") from error
        finally:
            candidate.end()
        return hello

    def _await_all_ready(self) -> None:
        deadline = time.monotonic() + _ALL_READY_S
        while waits := self._not_ready():
            if self._is_stopping() or time.monotonic() > deadline:
                raise NotReplaced(f"{', '.join(waits)}: not ready; {_UNTOUCHED}")
            self._turn(0.1)

    def _not_ready(self) -> list[str]:
        return [name for name in ACTORS if not self._children.is_ready(name)]

    # -- actors

    def _renew(self, name: str, release: Hello) -> Child:
        """Puts a process of the new code in the place of an actor. Raises NotUp, OSError."""
        candidate = self._candidate = Candidate(name, self._turn)
        handed_over = False

        def start() -> Child | None:
            nonlocal handed_over
            passed = Passed()
            world = handover.pack_world(self._world, passed, name)
            handed_over = True
            return candidate.begin(msgspec.json.encode(HandedActor(name, world)), passed.fds)

        try:
            if candidate.hello() != release:
                raise NotUp("the code on the disk has changed again meanwhile")
            if self._is_stopping():
                raise NotUp("the store stops")
            within_s = _READY_S + _SLOWER * self._children.setup_s.get(name, 0.0)
            renewed = self._replacing.renew(name, start, within_s)
        finally:
            if not handed_over:
                candidate.end()
        if not renewed:
            raise NotUp(f"the new {name} {self._replacing.failure}")
        return self._children.running[name]

    def _try_out(self, began: dict[str, Child], change: RunningChange) -> None:
        """Raises NotUp if an actor of the new code does not run for the whole trial."""
        trial_s = change.asked.trial_ms / 1000
        if trial_s:
            change.say(f"all actors run the new code; they are on trial for {trial_s:g} s")
        deadline = time.monotonic() + trial_s
        while True:
            for name, child in began.items():
                if self._children.running.get(name) is not child:
                    raise NotUp(f"the new {name} ended on trial ({how_it_ended(child)})")
            if self._is_stopping():
                raise NotUp("the store stops")
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._turn(min(0.1, left))

    def _take_back(self, began: dict[str, Child]) -> None:
        """Puts forked processes in the place of those of the new code. Raises GaveUp."""
        for name, child in began.items():
            if self._is_stopping():
                return
            if self._children.running.get(name) is child and not self._replacing.renew(name):
                self._logger.error(
                    "an actor of the old code is not back yet", actor_name=name,
                    why=self._replacing.failure,
                )  # fmt: skip
        self._children.set_policies()
        deadline = time.monotonic() + _BACK_S
        while self._not_ready() and not self._is_stopping() and time.monotonic() < deadline:
            self._turn(0.1)

    # -- supervisor

    def _execute(self, change: RunningChange) -> None:
        """Executes the new code in the place of this process. Raises NotUp if the store is to stop,
        OSError.
        """
        page = os.memfd_create("silomq-handover", os.MFD_CLOEXEC)
        # The new code has no handlers yet: a signal waits until it has. One that has come already
        # is in what is packed.
        signal.pthread_sigmask(signal.SIG_BLOCK, (*HANDLED, signal.SIGUSR1))
        fds: list[int] = []
        try:
            if self._is_stopping():
                raise NotUp("the store stops")
            handed, fds = self._pack(change)
            handed.fds = fds
            handover.write_all(page, msgspec.json.encode(handed))
            for fd in (page, *fds):
                os.set_inheritable(fd, True)  # noqa: FBT003 - os's own signature
            tell_repeats(everything=True)
            arguments = [*interpreter(), "supervise", str(page)]
            os.execv(sys.executable, arguments)  # noqa: S606 - no shell is wanted
        finally:
            for fd in (page, *fds):
                os.set_inheritable(fd, False)  # noqa: FBT003 - os's own signature
            os.close(page)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (*HANDLED, signal.SIGUSR1))
