"""All runs of a workload with one target, and their result."""

from __future__ import annotations

import contextlib
import datetime as dt
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .... import __version__
from ..results.model import FORMAT, Limit, Result, Run, Server
from ..workload.load import BadWorkload, Step, plain
from ..workload.values import Seconds
from . import limits
from .catalog import targets
from .faults import check_disk
from .full_memory import FullMemory
from .live import Interrupted
from .machine import machine
from .measure import measure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..targets.target import Facts, Target
    from ..workload.load import Plan
    from .live import Live
    from .measure import Found

#: How long the maximum is measured of which a workload wants a share.
_MAXIMUM_S = 10.0
_MAXIMUM_WARM_UP_S = 2.0


class NotMeasured(RuntimeError):
    """Nothing was measured: a target that is missing here, or an end before the first run."""


def run_all(plan: Plan, parent: Path, live: Live) -> Result:
    """Runs each step of a workload as often as it says, the steps in turn, each with a server of
    its own in a folder below `parent`. What the user interrupts is part of the result.

    Raises BadWorkload, NotMeasured, WorkerFailed, ServerFailed, OSError.
    """
    with contextlib.closing(FullMemory(parent)) as memory:
        runs = Runs(plan, parent, live, memory)
        with contextlib.suppress(Interrupted):
            runs.fill_memory()
            live.begin("the limits of this machine")
            runs.note_limits(limits.measure(parent))
            for number in range(1, plan.workload.runs + 1):
                for at in range(len(plan.steps)):
                    runs.do(number, at)
                    live.check()
    if not runs.done:
        raise NotMeasured("ended before anything was measured")
    return runs.result()


class Runs:
    """The runs of a plan: those that are kept from before, and those that are done here."""

    def __init__(
        self,
        plan: Plan,
        parent: Path,
        live: Live,
        memory: FullMemory,
        kept: Result | None = None,
    ) -> None:
        """Raises BadWorkload, NotMeasured."""
        self._plan, self._parent, self._live, self._memory = plan, parent, live, memory
        self._target = _target(plan)
        check_disk(plan.workload.faults, parent)
        self._machine, self._started = machine(parent), dt.datetime.now(dt.UTC)
        self._kept = kept
        self._rates: dict[int, float] = {}
        self._limits: dict[str, Limit] = {}
        self._last: Found | None = None
        self.done: list[Run] = []
        if kept is not None:
            self.done += kept.runs
            self.note_limits(kept.limits)

    def note_limits(self, found: Iterable[Limit]) -> None:
        """Adds samples of the machine's limits."""
        for one in found:
            before = self._limits.get(one.name)
            samples = [*before.samples, *one.samples] if before else one.samples
            self._limits[one.name] = Limit(one.name, one.unit, samples)

    def left(self, number: int) -> list[int]:
        """The steps that have no run of this number."""
        have = {(run.label, run.value) for run in self.done if run.number == number}
        return [
            at for at, step in enumerate(self._plan.steps) if (step.label, step.value) not in have
        ]

    def do(self, number: int, at: int) -> None:
        """Runs a step. Raises Interrupted, NotMeasured, WorkerFailed, ServerFailed, OSError."""
        step = self._plan.steps[at]
        if at not in self._rates:
            self._rates[at] = self._rate(step)
        self.fill_memory()
        shown = f" {step.label}={step.value:g}" if step.label else ""
        count = self._plan.workload.runs
        self._live.begin(f"{self._plan.name}{shown}, {self._target.name}: run {number} of {count}")
        self._last = self._measure(step, self._rates[at], number)
        self.done.append(self._last.run)

    def fill_memory(self) -> None:
        """Fills free memory if the workload wants it. Raises Interrupted, OSError."""
        if self._plan.workload.full_memory:
            self._live.begin("filling the free memory")
            self._memory.fill(self._live.check)

    def _measure(self, step: Step, rate: float, number: int) -> Found:
        return measure(step, self._target, self._parent, rate, live=self._live, number=number)

    def _rate(self, step: Step) -> float:
        """The rate of all producers, 0 for the maximum. Measures the maximum if a share is wanted
        and no run of this step is kept.
        """
        wanted = step.workload.producers.rate
        if wanted.fixed is not None:
            return wanted.fixed
        if wanted.share is None:
            return 0.0
        for run in self.done:
            if (run.label, run.value) == (step.label, step.value):
                return run.wanted_rate
        self.fill_memory()
        self._live.begin(f"the maximum of {self._target.name}, of which {wanted} are wanted")
        workload = msgspec.structs.replace(
            step.workload,
            duration=Seconds(min(_MAXIMUM_S, step.workload.duration)),
            warm_up=Seconds(_MAXIMUM_WARM_UP_S),
            check=False,
            faults=[],
        )
        run = self._measure(Step(step.label, step.value, workload), 0.0, 0).run
        self._live.check()
        if not run.publish_rate:
            raise NotMeasured(f"the maximum cannot be measured: {run.first_error}")
        return run.publish_rate * wanted.share

    def result(self) -> Result:
        """Of all runs, which must be one at least."""
        kept, here = self._kept, commit()
        if self._last is not None:
            server = _server(self._target, self._last.facts, self._plan, self._last.clients)
        else:
            assert kept is not None
            server = kept.server
        commits = dict.fromkeys([*kept.commit.split(", "), here] if kept else [here])
        return Result(
            FORMAT, self._plan.name,
            kept.started if kept else self._started.isoformat(timespec="seconds"), __version__,
            ", ".join(commits), plain(self._plan.workload), server,
            kept.machine if kept else self._machine, [*self._limits.values()], self.done,
            interrupted=self._live.is_interrupted(),
        )  # fmt: skip


def _target(plan: Plan) -> Target:
    known = targets(plan.workload.address)
    target = known.get(plan.workload.target)
    if target is None:
        raise BadWorkload(f"target: {plan.workload.target} is none of {', '.join(known)}")
    if missing := target.missing():
        raise NotMeasured(f"target {target.name}: {missing}")
    return target


def _server(target: Target, facts: Facts, plan: Plan, clients: dict[str, str]) -> Server:
    store = plan.workload.store
    settings = {
        "flush": store.flush,
        "pool": str(store.pool).lower(),
        "file_size": str(int(store.file_size)),
        **{name: str(value) for name, value in store.settings.items()},
    }
    return Server(
        target.name, facts.title, facts.version, facts.acknowledged, int(facts.durability),
        settings, clients,
    )  # fmt: skip


def commit() -> str:
    """The commit of the working tree in the current folder, if it is SiloMQ's; "" elsewhere."""
    if not Path("bench/harness/run/session.py").is_file():
        return ""
    asked = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],  # noqa: S607 - the user's own git
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stdout.strip() if asked.returncode == 0 else ""
