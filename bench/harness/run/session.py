"""All runs of a workload, and their result."""

from __future__ import annotations

import contextlib
import datetime as dt
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .... import __version__
from ..results.model import FORMAT, Result, Run, Server
from ..workload.load import BadWorkload, Step, plain
from ..workload.values import Seconds
from . import limits
from .catalog import targets
from .faults import check_disk
from .live import Interrupted
from .machine import machine
from .measure import measure

if TYPE_CHECKING:
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
    workload = plan.workload
    target = _target(plan)
    check_disk(workload.faults, parent)
    where, started = machine(parent), dt.datetime.now(dt.UTC)
    live.begin("the limits of this machine")
    measured = limits.measure(parent)
    runs = _Runs(plan, target, parent, live)
    with contextlib.suppress(Interrupted):
        runs.do_all()
    last = runs.last
    if last is None:
        raise NotMeasured("ended before anything was measured")
    return Result(
        FORMAT, plan.name, started.isoformat(timespec="seconds"), __version__, commit(),
        plain(workload), _server(target, last.facts, plan, last.clients), where, measured,
        runs.done,
        interrupted=live.is_interrupted(),
    )  # fmt: skip


def _target(plan: Plan) -> Target:
    known = targets(plan.workload.address)
    target = known.get(plan.workload.target)
    if target is None:
        raise BadWorkload(f"target: {plan.workload.target} is none of {', '.join(known)}")
    if missing := target.missing():
        raise NotMeasured(f"target {target.name}: {missing}")
    return target


class _Runs:
    """The runs of a plan. `last` is the last of `done`."""

    def __init__(self, plan: Plan, target: Target, parent: Path, live: Live) -> None:
        self._plan, self._target, self._parent, self._live = plan, target, parent, live
        self._rates: dict[int, float] = {}
        self.done: list[Run] = []
        self.last: Found | None = None

    def do_all(self) -> None:
        """Each step once, then each once more. Raises Interrupted."""
        count = self._plan.workload.runs
        for number in range(1, count + 1):
            for at, step in enumerate(self._plan.steps):
                if at not in self._rates:
                    self._rates[at] = self._rate(step)
                shown = f" {step.label}={step.value:g}" if step.label else ""
                self._live.begin(f"{self._plan.name}{shown}: run {number} of {count}")
                self.last = self._measure(step, self._rates[at], number)
                self.done.append(self.last.run)
                self._live.check()

    def _measure(self, step: Step, rate: float, number: int) -> Found:
        return measure(step, self._target, self._parent, rate, live=self._live, number=number)

    def _rate(self, step: Step) -> float:
        """The rate of all producers, 0 for the maximum. Measures the maximum if a share is
        wanted.
        """
        wanted = step.workload.producers.rate
        if wanted.fixed is not None:
            return wanted.fixed
        if wanted.share is None:
            return 0.0
        self._live.begin(f"the maximum, of which {wanted} are wanted")
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
