"""Workers that pop: how many messages a second they get and acknowledge, and what that costs the
registry.
"""

from __future__ import annotations

import contextlib
import time
from array import array
from functools import partial
from pathlib import Path

from ..client.groups.group_consumer import GroupConsumer
from ..client.producing.producer import Producer
from ..shm.control import ACTORS
from .children import child, cpu_ns, hear, write
from .rows import BATCH, Plan, Row
from .store import BenchStore

WORKERS = (1, 2, 4)
#: RocketMQ's most of one pop.
_BATCH = 32
_QUEUES = 8
_END_S = 0.5


def popping(plan: Plan, hand_over_us: list[float]) -> list[Row]:
    """All figures of workers. Each run has a group of its own, which pops everything."""
    count = plan.count(400_000) // BATCH * BATCH
    rows = []
    said = "a futex there and back for each batch"
    beside = [_BATCH * 1e6 / us for us in hand_over_us]
    with BenchStore(plan.folder, f"mapped_file_size_commit_log={plan.file_size}") as store:
        store.admin.create_topic("bench", _QUEUES)
        with Producer(store.folder, timeout=60) as producer:
            for number in range(count // BATCH):
                producer.send_batch_oneway("bench", [b"x" * 128] * BATCH, queue=number % _QUEUES)
            producer.flush(60)
        store.wait_dispatched()
        store.settle()
        registry = [store.control.process(ACTORS.index("registry"))[0]]
        for workers in WORKERS:
            rates, costs = [], []
            for run in range(plan.runs):
                before = cpu_ns(registry)
                seconds = _pop_all(store.folder, f"pops{workers}-{run}", workers, count)
                costs.append((cpu_ns(registry) - before) / (count / _BATCH) / 1e3)
                rates.append(count / seconds)
            name = f"pops in batches of {_BATCH}, {workers} worker{'s' * (workers > 1)}"
            rows.append(Row(name, "msg/s", rates, said, beside, 200e3))
            name = "  the registry's CPU time for each batch"
            rows.append(Row(name, "us", costs, "futex there and back", hand_over_us))
    return rows


def _pop_all(folder: Path, group: str, workers: int, count: int) -> float:
    """Seconds from the first pop to the last message of all."""
    with contextlib.ExitStack() as children:
        work = partial(_worker, folder, group)
        fds = [children.enter_context(child(work)) for _ in range(workers)]
        spans = [array("q", hear(fd, "it has popped its messages")) for fd in fds]
    found = sum(number for _, _, number in spans)
    if found != count:
        raise RuntimeError(f"{workers} workers popped {found} of {count} messages")
    first, last, _ = zip(*spans, strict=True)
    return float(max(last) - min(first)) / 1e9


def _worker(folder: Path, group: str, fd: int) -> None:
    """Pops until nothing comes for a while."""
    count = 0
    with GroupConsumer(folder, group, "bench", start="earliest", mode="pop") as member:
        first = last = time.monotonic_ns()
        while found := member.poll(_BATCH, _END_S):
            for message in found:
                _ = message.body
            count += len(found)
            last = time.monotonic_ns()
    write(fd, array("q", (first, last, count)).tobytes())
