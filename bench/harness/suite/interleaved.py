"""The runs of a suite: part by part, in it round by round, in it target by target."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from ..run import limits
from ..run.crew import WorkerFailed
from ..run.full_memory import FullMemory
from ..run.session import NotMeasured, Runs
from ..targets.processes import ServerFailed
from . import kept

if TYPE_CHECKING:
    from pathlib import Path

    from ..run.live import Live
    from .suite import Part, Suite

#: Samples of each limit in a round of a part.
_SAMPLES = 2


class TimeIsUp(Exception):
    """The time that was given is over: what is left is for the next call."""


@dataclass
class Done:
    """What a call has done: how many runs, how many are left, and what went wrong in sentences."""

    runs: int = 0
    left: int = 0
    troubles: list[str] = field(default_factory=list)


class Interleaved:
    """A suite that is run. Results are read from and written to `results`; servers lie below
    `parent`.
    """

    def __init__(self, suite: Suite, results: Path, parent: Path, live: Live) -> None:
        self._suite, self._results, self._parent, self._live = suite, results, parent, live
        self.done = Done()

    def run(self, stop_after_s: float | None) -> Done:
        """Runs what is left, and begins no run after a time, if one is given.

        A target that is missing or fails is told of, and the others go on. Raises Interrupted,
        TimeIsUp, BadWorkload, BadResult, OSError.
        """
        with contextlib.closing(FullMemory(self._parent)) as memory:
            return self._run(memory, stop_after_s)

    def _run(self, memory: FullMemory, stop_after_s: float | None) -> Done:
        end = None if stop_after_s is None else time.monotonic() + stop_after_s
        prepared = [(part, self._prepared(part, memory)) for part in self._suite.parts]
        rounds = [
            (part, some, number)
            for part, some in prepared
            for number in range(1, self._suite.rounds(part) + 1)
        ]
        self.done.left = sum(
            len(one.left(number)) for _, some, number in rounds for one in some.values()
        )
        for part, some, number in rounds:
            self._round(part, some, number, end)
        return self.done

    def _prepared(self, part: Part, memory: FullMemory) -> dict[str, Runs]:
        """The runs of each target that can be measured here."""
        found = {}
        for target in part.targets:
            plan = self._suite.plan(part, target)
            before = kept.kept(self._results, part.name, target)
            if before is not None:
                kept.check_same(kept.place(self._results, part.name, target), before, plan)
                # A run that was cut short is done again.
                runs = before.runs[:-1] if before.interrupted else before.runs
                before = msgspec.structs.replace(before, runs=runs, interrupted=False)
            try:
                found[target] = Runs(plan, self._parent, self._live, memory, before)
            except NotMeasured as error:
                self.done.troubles.append(f"{part.name}: {error}")
        return found

    def _round(self, part: Part, some: dict[str, Runs], number: int, end: float | None) -> None:
        if not any(one.left(number) for one in some.values()):
            return
        next(iter(some.values())).fill_memory()
        self._live.begin(f"{part.name}: the limits of this machine")
        measured = limits.measure(self._parent, _SAMPLES)
        for target, runs in [*some.items()]:
            steps = runs.left(number)
            if steps:
                runs.note_limits(measured)
            for at in steps:
                if end is not None and time.monotonic() >= end:
                    raise TimeIsUp
                try:
                    runs.do(number, at)
                except (WorkerFailed, ServerFailed, NotMeasured) as error:
                    # It would fail in the next round too: the others are not kept waiting for it.
                    self.done.troubles.append(f"{part.name}, {target}, run {number}: {error}")
                    del some[target]
                    break
                self.done.runs += 1
                self.done.left -= 1
                kept.keep(kept.place(self._results, part.name, target), runs.result())
                self._live.check()
