"""What a step of a workload asks of the server, and the order of each of its workers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..load.protocol import Order
from ..targets.target import Wanted
from ..workload import draw
from ..workload.load import BadWorkload

if TYPE_CHECKING:
    from pathlib import Path

    from ..targets.target import Facts
    from ..workload.workload import Workload


def whole(seconds: float) -> int:
    """Full seconds: a run is counted second by second."""
    return math.ceil(seconds)


def topics(workload: Workload) -> list[str]:
    """The names of its topics."""
    wanted = workload.topics
    return (
        [wanted.name] if wanted.count == 1 else [f"{wanted.name}{n}" for n in range(wanted.count)]
    )


def wanted(workload: Workload) -> Wanted:
    """What the server must have."""
    store = workload.store
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in store.settings.items()
    }
    return Wanted(
        topics(workload),
        workload.topics.queues,
        flush=store.flush,
        pool=store.pool,
        file_size=store.file_size,
        settings=texts,
    )


def check_calls(workload: Workload, facts: Facts) -> None:
    """Raises BadWorkload if the target does not know a call."""
    asked: list[tuple[str, str, frozenset[str]]] = [
        ("producers", workload.producers.call, facts.send_calls)
    ]
    if workload.consumers.groups:
        asked.append(("consumers", workload.consumers.call, facts.read_calls))
    for table, call, known in asked:
        if call not in known:
            names = ", ".join(sorted(known)) or "none"
            raise BadWorkload(f"{table}.call: {facts.title} does not know {call}: one of {names}")


def producer_orders(
    workload: Workload, endpoint: dict[str, str], rate: float, payload: Path, numbers: Path | None
) -> list[Order]:
    """One order for each producer; `rate` is that of all, 0 for as fast as possible."""
    asked = workload.producers
    drawn = draw.sizes(asked.size, workload.seed)
    count = asked.processes
    names = topics(workload)
    shares = [names[n::count] for n in range(count)] if len(names) >= count else [names] * count
    return [
        Order(
            "produce", workload.target, endpoint, n, count, shares[n], workload.topics.queues,
            workload.seed, whole(workload.warm_up), whole(workload.duration),
            call=asked.call, window=asked.window, batch=asked.batch, rate=rate / count,
            messages=-(-asked.messages // count), sizes=drawn, payload=str(payload),
            tags=asked.tags, keys=asked.keys, check=str(numbers or ""),
        )
        for n in range(count)
    ]  # fmt: skip


def group_names(workload: Workload) -> list[str]:
    """The names of its groups."""
    return [f"bench-group{n}" for n in range(workload.consumers.groups)]


def consumer_orders(
    workload: Workload, endpoint: dict[str, str], drain: int, numbers: Path | None
) -> list[Order]:
    """One order for each member of each group."""
    asked = workload.consumers
    return [
        Order(
            "consume", workload.target, endpoint, n, asked.processes, topics(workload),
            workload.topics.queues, workload.seed, whole(workload.warm_up),
            whole(workload.duration), call=asked.call, group=group, most=asked.most,
            acknowledge=asked.acknowledge, check=str(numbers or ""),
            drain=drain if asked.processes == 1 else 0, is_backlog=asked.after,
        )
        for group in group_names(workload)
        for n in range(asked.processes)
    ]  # fmt: skip
