"""One server in one round: each part of the work, in an order in which none disturbs the next."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import native
from .client import JavaClient, java_client
from .crowd import consumer_beat, crowd, producer_beat, room_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .amounts import Amounts
    from .rocketmq import Jvm
    from .servers import Server

THREADS = (1, 8, 32)
_BATCH_THREADS = 8
_BATCH = 32
_WINDOW = 1000
_RATE = 1000
_MIB = 1 << 20
_KIB = 1 << 10


@dataclass
class Round:
    """The figures of one server, by name, as far as they were taken. `notes` are for the reader:
    requests that failed.
    """

    server: Server
    amounts: Amounts
    client: JavaClient
    figures: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def keep(self, name: str, found: dict[str, float]) -> None:
        """Keeps the figures of one kind of work."""
        if found.get("failed"):
            self.notes.append(f"{name}: {found['failed']:.0f} failed")
        self.figures |= {f"{name}.{key}": value for key, value in found.items()}

    def java(self, name: str, what: str, **values: object) -> None:
        """Has the Java client do one order on a topic of its own."""
        topic = values.pop("topic", None) or self.server.make_topic(name)
        found = self.client.do(what, topic=topic, **values)
        if not found["messages"]:
            raise RuntimeError(f"{name}: no message came through")
        found["rate"] = found["messages"] / found["seconds"]
        found["cpu_us"] = found["cpu_s"] / found["messages"] * 1e6
        self.keep(name, found)

    @property
    def _timed(self) -> dict[str, int]:
        return {"warm": self.amounts.warm_ms, "time": self.amounts.time_ms}

    def sync(self) -> None:
        for threads in THREADS:
            self.java(f"sync{threads}", "sync", threads=threads, size=128, **self._timed)

    def asynchronous(self) -> None:
        self.java("async", "async", window=_WINDOW, size=128, **self._timed)

    def batches(self) -> None:
        more = {"threads": _BATCH_THREADS, "messages": _BATCH, **self._timed}
        for size in native.SIZES:
            self.java(f"batch{size}", "batch", size=size, **more)

    def drain(self) -> None:
        topic, warm = self.server.make_topic("drain"), self.amounts.drain_warm
        native.fill(self.server, topic, 1024, warm + self.amounts.drain)
        count = warm + self.amounts.drain
        self.java("drain", "drain", topic=topic, warm=warm, count=count)

    def paced(self) -> None:
        warm, count = self.amounts.paced_warm, self.amounts.paced
        self.java("paced", "paced", rate=_RATE, size=128, warm=warm, count=count)

    def idle(self) -> None:
        """CPU time while clients are connected, subscribed, and send heart-beats."""
        amounts, topic = self.amounts, self.server.make_topic("idle")
        beat = functools.partial(consumer_beat, topic)
        with crowd(self.server.broker, room_for(amounts.clients), beat) as clients:
            clients.live(amounts.settle_s, amounts.beat_every_s)
            before, start = self.server.cpu_seconds(), time.monotonic()
            clients.live(amounts.idle_s, amounts.beat_every_s)
            took = time.monotonic() - start
            used = self.server.cpu_seconds() - before
        self.keep("idle", {"percent": 100 * used / took})

    def connections(self) -> None:
        """Memory for each of many connections, and sends beside them."""
        ours = self.server.kind == "silomq"
        amounts, topic = self.amounts, self.server.make_topic("connections")
        count = room_for(amounts.connections if ours else amounts.connections_beside)
        native.lone_sends(
            self.server, topic, amounts.lone // 10
        )  # what a first send needs is there
        before = self.server.own_bytes()
        with crowd(self.server.broker, count, producer_beat):
            grown = self.server.own_bytes() - before
            beside = native.lone_sends(self.server, topic, amounts.lone // 10)
        self.keep("connections", {**beside, "count": count, "each_kib": grown / count / _KIB})

    def native(self) -> None:
        for size in native.SIZES:
            topic = self.server.make_topic(f"native{size}")
            for connections in native.CONNECTIONS:
                found = native.pipelined_sends(self.server, topic, size, connections, self.amounts)
                self.keep(f"sends{connections}x{size}", found)
            for connections in native.CONNECTIONS:
                found = native.pipelined_pulls(self.server, topic, connections)
                self.keep(f"pulls{connections}x{size}", found)
        topic = self.server.make_topic("lone")
        self.keep("lone", native.lone_sends(self.server, topic, self.amounts.lone))


#: The parts between the first and the last look at a server's memory, in their order.
WORKS: dict[str, Callable[[Round], None]] = {
    "idle": Round.idle,
    "connections": Round.connections,
    "sync": Round.sync,
    "async": Round.asynchronous,
    "batches": Round.batches,
    "drain": Round.drain,
    "paced": Round.paced,
    "native": Round.native,
}


def measure(server: Server, amounts: Amounts, works: list[str], folder: Path, jvm: Jvm) -> Round:
    """Does the works on a server that has just started. `jvm` runs the Java client, which logs into
    `folder`.
    """
    empty = server.own_bytes()
    topic = server.make_topic("first")
    start = time.perf_counter()
    with java_client(folder, jvm, server.names, server.cpu_seconds) as client:
        found = Round(server, amounts, client)
        client.do("first", topic=topic)
        first_s = server.answered_s + time.perf_counter() - start
        found.keep("start", {"answered_s": server.answered_s, "first_s": first_s})
        for work in works:
            WORKS[work](found)
        loaded = server.own_bytes()
    found.keep("memory", {"empty_mib": empty / _MIB, "loaded_mib": loaded / _MIB})
    return found
