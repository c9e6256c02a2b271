"""One run of one step: a server is started in a folder of its own, measured, and removed."""

from __future__ import annotations

import contextlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..load.account import SECOND
from ..load.numbers import lost_and_doubled
from ..results.drift import drift
from ..results.model import Fault, Run, Series
from ..targets.target import NotOffered
from ..workload import draw
from ..workload.load import BadWorkload
from . import plan
from .crew import Crew
from .faults import Faults
from .page_cache import cached_share, evict
from .pauses import Pauses
from .sampler import Sampler, Samples
from .tally import Tally

if TYPE_CHECKING:
    from ..load.protocol import Order
    from ..targets.target import Facts, Running, Target
    from ..workload.load import Step
    from .live import Live

#: From the moment in which all workers are ready until the start.
_BEFORE_START_NS = 200_000_000
_HEAR_S = 0.05
#: How long the last messages may take to come to the consumers, without any progress.
_REST_S = 15.0
#: How long producers may need for what is overdue.
_OVERDUE_S = 120.0
#: How long the server may need to dispatch what was sent.
_DISPATCH_S = 120.0
_DISPATCH_EVERY_S = 0.001


@dataclass(frozen=True)
class Found:
    """A run, and what the server and the clients say of themselves."""

    run: Run
    facts: Facts
    clients: dict[str, str]


class Measurement:
    """A run that goes on. `rate` is that of all producers, 0 for the maximum."""

    def __init__(
        self, step: Step, server: Running, folder: Path, rate: float, *, live: Live, number: int
    ) -> None:
        self._step, self._workload, self._server = step, step.workload, server
        self._folder, self._rate, self._live, self._number = folder, rate, live, number
        self._warm_up = plan.whole(self._workload.warm_up)
        self._duration = plan.whole(self._workload.duration)
        self._tally = Tally(self._warm_up, self._duration)
        self._samples = Samples()
        self._groups = self._workload.consumers.groups
        self._first_error = ""
        self._client_cpu_s = 0.0
        self.clients: dict[str, str] = {}
        self._is_interrupted = False
        self._done_faults: list[Fault] = []
        self._server_cpu_s = 0.0
        self._cached: float | None = None
        self._dispatch_rate = 0.0
        #: When the measured part began, ns, and how many messages were dispatched before.
        self._dispatched_before = (0, 0)
        self._numbers: Path | None = None
        if self._workload.check:
            self._numbers = folder / "numbers"
            self._numbers.mkdir()
        self._payload = folder / "payload"
        draw.write_payload(self._workload.producers, self._workload.seed, self._payload)

    def measure(self) -> Run:
        """The run. Raises Interrupted before its start, WorkerFailed, ServerFailed."""
        workload, endpoint = self._workload, self._server.endpoint
        sending = plan.producer_orders(workload, endpoint, self._rate, self._payload, self._numbers)
        reading: list[Order] = []
        if not workload.consumers.after:
            reading = plan.consumer_orders(workload, endpoint, 0, self._numbers)
        # Consumers first: a group that is there before its topics have messages misses none.
        self._work([*reading, *sending], 0)
        if not reading:
            self._await_dispatch()
        drained_s = 0.0
        if workload.consumers.after and not self._is_interrupted:
            if workload.consumers.cold:
                self._make_cold()
            begin = len(self._tally.seconds)
            reading = plan.consumer_orders(workload, endpoint, self._tally.all_sent, self._numbers)
            drained_s = self._work(reading, begin)
        return self._result(drained_s)

    def _work(self, orders: list[Order], shift: int) -> float:
        """Has workers do their orders. Their second 0 is second `shift` of the run. Returns how
        long it took until the last message was read, s; until all ended if no worker tells.
        """
        with Crew(self._server.worker(), orders, self._folder) as crew:
            crew.wait_ready(self._check)
            start = time.monotonic_ns() + _BEFORE_START_NS
            crew.go(start)
            self._dispatched_before = (start, self._server.positions().get("dispatch_count", 0))
            consumers = [w.process.pid for w in crew.workers if w.order.role == "consume"]
            faults = Faults(
                self._workload.faults,
                self._warm_up,
                self._duration,
                folder=self._folder,
                pids=self._server.pids,
                consumers=consumers,
            )
            try:
                with contextlib.closing(Pauses()) as pauses:
                    took = self._follow(crew, start, shift, faults, pauses)
            finally:
                faults.close()
                self._done_faults += faults.done
            read_s = 0.0
            for worker in crew.workers:
                if worker.ready is not None:
                    self.clients.update(worker.ready.versions)
                if worker.done is not None:
                    self._client_cpu_s += worker.done.cpu_s
                    read_s = max(read_s, worker.done.read_s)
                    self._first_error = self._first_error or worker.done.first_error
        return read_s or took

    def _await_dispatch(self) -> None:
        """Waits until all messages that were sent are in their queues, if the server tells."""
        deadline = time.monotonic() + _DISPATCH_S
        began, before = self._dispatched_before
        while (now := self._server.positions()) and not self._live.is_interrupted():
            if now["dispatched"] >= now["wrote"]:
                took_s = (time.monotonic_ns() - began) / SECOND
                self._dispatch_rate = (now["dispatch_count"] - before) / took_s
                return
            self._server.pids()
            if time.monotonic() > deadline:
                return
            time.sleep(_DISPATCH_EVERY_S)

    def _make_cold(self) -> None:
        """Takes the server's files out of the page cache. What a process has mapped stays in it, so
        the server is started anew if it can be.
        """
        if not self._server.restart(lambda: evict(self._folder)):
            evict(self._folder)
        self._cached = cached_share(self._folder)

    def _check(self) -> None:
        """Before the start: nothing is measured yet."""
        self._live.check()
        self._server.pids()

    def _follow(self, crew: Crew, start: int, shift: int, faults: Faults, pauses: Pauses) -> float:
        """Hears the workers until the work is done. Returns how long it took, s."""
        sampler = Sampler(self._server.pids)
        sampled_at, seconds = start, 0
        progress, progressed_at = -1, time.monotonic()
        cpu_before = 0.0
        while not crew.is_done:
            for worker, tick in crew.hear(_HEAR_S):
                self._tally.add(worker.order.role, tick, shift)
            now = time.monotonic_ns()
            faults.look((now - start) / 1e9)
            if now >= start + (seconds + 1) * SECOND:
                row, sampled_at = sampler.sample((now - sampled_at) / 1e9), now
                if seconds < self._warm_up:
                    cpu_before = sampler.cpu_s
                    before = self._server.positions().get("dispatch_count", 0)
                    self._dispatched_before = (now, before)
                row |= self._behind()
                row["machine_pause"], row["core_pause"] = pauses.longest_us() or (None, None)
                missed = (now - start) // SECOND - seconds - 1
                self._samples.rows += [{}] * missed + [row]
                seconds += missed + 1
                self._live.show(
                    self._tally, self._samples, self._groups,
                    warm_up=self._warm_up, duration=self._duration,
                )  # fmt: skip
            if self._live.is_interrupted() and not self._is_interrupted:
                self._is_interrupted = True
                crew.end()
            if self._tally.all_consumed != progress:
                progress, progressed_at = self._tally.all_consumed, time.monotonic()
            if self._is_over(crew, (now - start) / 1e9, progressed_at):
                crew.end()
        sampler.sample((time.monotonic_ns() - sampled_at) / 1e9)
        self._server_cpu_s += sampler.cpu_s - cpu_before
        return (time.monotonic_ns() - start) / 1e9

    def _behind(self) -> dict[str, float | None]:
        """Columns of a second: bytes that the server has taken and not finished with."""
        now = self._server.positions()
        names = {"not_flushed": "flushed", "not_dispatched": "dispatched"}
        return {
            column: float(max(0, now["wrote"] - now[name]))
            for column, name in names.items()
            if name in now
        }

    def _is_over(self, crew: Crew, since_s: float, progressed_at: float) -> bool:
        """Whether the workers that are left may end: producers too late, consumers with all."""
        if since_s > self._warm_up + self._duration + _OVERDUE_S:
            return True
        producers = [w for w in crew.workers if w.order.role == "produce"]
        if not all(worker.done is not None for worker in producers):
            return False
        if self._tally.all_consumed >= self._tally.all_sent * self._groups:
            return True
        return time.monotonic() - progressed_at > _REST_S

    def _result(self, drained_s: float) -> Run:
        tally, step = self._tally, self._step
        length = len(tally.seconds)
        publish_rate, consume_rate = tally.rates()
        if drained_s:
            consume_rate = tally.all_consumed / drained_s
        if self._workload.producers.messages:
            sending = [one.sent for one in tally.seconds if one.sent]
            publish_rate = sum(sending) / max(1, len(sending))
        columns = {**tally.columns(self._groups), **self._samples.columns(length)}
        lost, doubled = self._count()
        measured = max(1, tally.sent + tally.consumed if drained_s else tally.sent)
        return Run(
            self._number, step.label, step.value, float(max(0, length - self._warm_up)),
            float(self._warm_up), tally.sent, tally.sent_bytes, tally.consumed, tally.errors,
            self._first_error, publish_rate, consume_rate, tally.latency(),
            Series([float(n) for n in range(length)], columns),
            faults=self._done_faults,
            server_cpu_us=self._server_cpu_s / measured * 1e6,
            client_cpu_us=self._client_cpu_s / max(1, tally.all_sent) * 1e6,
            lost=lost, doubled=doubled,
            drift=drift(columns, self._warm_up),
            wanted_rate=self._rate,
            dispatch_rate=self._dispatch_rate,
            cached=self._cached,
        )  # fmt: skip

    def _count(self) -> tuple[int | None, int | None]:
        """Lost and doubled messages of all groups, if they were counted."""
        if self._numbers is None or self._is_interrupted:
            return None, None
        lost = doubled = 0
        sent = list(self._numbers.glob("produce-*"))
        for group in plan.group_names(self._workload):
            found = lost_and_doubled(sent, self._numbers.glob(f"consume-{group}-*"))
            lost, doubled = lost + found[0], doubled + found[1]
        return lost, doubled


def measure(
    step: Step, target: Target, parent: Path, rate: float, *, live: Live, number: int
) -> Found:
    """One run, in a folder below `parent` that is removed. Raises Interrupted, BadWorkload,
    WorkerFailed, ServerFailed, OSError.
    """
    with tempfile.TemporaryDirectory(prefix="silomq-bench-", dir=parent) as inside:
        folder = Path(inside)
        with contextlib.ExitStack() as ends:
            try:
                server = ends.enter_context(target.start(folder, plan.wanted(step.workload)))
            except NotOffered as error:
                raise BadWorkload(f"target {target.name}: {error}") from None
            facts = server.facts
            plan.check_calls(step.workload, facts)
            measurement = Measurement(step, server, folder, rate, live=live, number=number)
            run = measurement.measure()
            return Found(run, facts, measurement.clients)
