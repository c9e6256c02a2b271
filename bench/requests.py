"""Requests and their replies: how long one takes, and how many a second come back. The replier is a
process of its own.
"""

from __future__ import annotations

import os
import time
from collections import deque
from functools import partial
from pathlib import Path

from ..client.consuming.consumer import Consumer
from ..client.producing.producer import Producer
from ..client.requests.request_producer import RequestProducer
from .children import WAIT_S, child, hear
from .rows import Plan, Row
from .store import BenchStore

_TOPIC = "bench"
_WINDOW = 64
_BODY = b"x" * 128
_LAST = b"end"


def requesting(plan: Plan, hand_over_us: list[float]) -> list[Row]:
    """All figures of requests. A request and its reply are two messages, so at least two hand-overs
    there and back.
    """
    one_by_one, together = plan.count(5_000), plan.count(50_000)
    middle, high, rates = [], [], []
    with BenchStore(plan.folder, f"mapped_file_size_commit_log={plan.file_size}") as store:
        store.admin.create_topic(_TOPIC, 1)
        with child(partial(_reply, store.folder)) as fd:
            hear(fd, "it waits for requests")
            with RequestProducer(store.folder) as asker:
                _window(asker, plan.count(1_000))  # makes the queue, the index and the session
                store.settle()
                for _ in range(plan.runs):
                    taken = sorted(_one_by_one(asker, one_by_one))
                    middle.append(taken[one_by_one // 2])
                    high.append(taken[one_by_one * 99 // 100])
                    began = time.perf_counter()
                    _window(asker, together)
                    rates.append(together / (time.perf_counter() - began))
                asker.send_oneway(_TOPIC, _LAST)
                asker.flush(WAIT_S)
    twice = [2 * us for us in hand_over_us]
    said = "two futexes there and back"
    rows = [
        Row(f"request and reply, {name}", "us", samples, said, twice, higher_is_better=False)
        for name, samples in (("p50", middle), ("p99", high))
    ]
    alone = [1e6 / us for us in middle]
    name = f"requests with their replies, {_WINDOW} under way"
    rows.append(Row(name, "req/s", rates, "one at a time", alone))
    return rows


def _one_by_one(asker: RequestProducer, count: int) -> list[float]:
    """Microseconds of each request."""
    taken = []
    for _ in range(count):
        began = time.perf_counter_ns()
        asker.request(_TOPIC, _BODY, timeout=WAIT_S)
        taken.append((time.perf_counter_ns() - began) / 1e3)
    return taken


def _window(asker: RequestProducer, count: int) -> None:
    """Sends so many requests, of which _WINDOW are under way, and awaits all replies."""
    waiting = deque(
        asker.request_async(_TOPIC, _BODY, timeout=WAIT_S) for _ in range(min(count, _WINDOW))
    )
    for _ in range(count - len(waiting)):
        waiting.popleft().result()
        waiting.append(asker.request_async(_TOPIC, _BODY, timeout=WAIT_S))
    for future in waiting:
        future.result()


def _reply(folder: Path, fd: int) -> None:
    with Producer(folder) as producer, Consumer(folder, _TOPIC, offset="latest") as consumer:
        os.write(fd, b".")
        for message in consumer:
            if message.body == _LAST:
                return
            producer.reply_async(message, message.body)
