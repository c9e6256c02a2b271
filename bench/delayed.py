"""Delayed messages: how late they are delivered, beside how late a sleeping process wakes."""

from __future__ import annotations

import time

from ..client.consuming.consumer import Consumer
from ..client.producing.producer import Producer
from .rows import Plan, Row
from .store import BenchStore

_EVERY_S = 0.001  # between two sends
_LEAST_MS, _SPREAD_MS = 1000, 1000  # of the delays
_STEP = 7919  # a prime, so that the delays are in no order
_WAIT_S = 30.0


def delayed(plan: Plan) -> list[Row]:
    """Milliseconds from a message's due time until its consumer has it. Raises RuntimeError for a
    message that comes early.
    """
    count = plan.count(10_000)
    middle, high, asleep = [], [], []
    size = f"mapped_file_size_commit_log={plan.file_size}"
    with BenchStore(plan.folder, size) as store, Producer(store.folder) as producer:
        store.admin.create_topic("bench", 4)
        store.settle()
        for _ in range(plan.runs):
            late: list[float] = []
            slept: list[float] = []
            with Consumer(store.folder, "bench", offset="latest") as consumer:
                sent, deadline = 0, time.monotonic() + count * _EVERY_S * 3 + _WAIT_S
                while len(late) < count:
                    if time.monotonic() > deadline:
                        raise RuntimeError(f"only {len(late)} of {count} delayed messages came")
                    if sent < count:
                        due = int(time.time() * 1000) + _LEAST_MS + sent * _STEP % _SPREAD_MS
                        producer.send_oneway("bench", b"%d" % due, deliver_at=due)
                        sent += 1
                        found = consumer.poll(256)
                        start = time.perf_counter()
                        time.sleep(_EVERY_S)
                        slept.append((time.perf_counter() - start - _EVERY_S) * 1e3)
                    else:
                        found = consumer.poll(256, 1.0)
                    now = time.time() * 1000
                    late += [now - float(message.body) for message in found]
            late.sort()
            slept.sort()
            if late[0] < 0:
                raise RuntimeError(f"a message came {-late[0]:.3f} ms early")
            middle.append(late[count // 2])
            high.append(late[count * 99 // 100])
            asleep.append(slept[count * 99 // 100])
    said = "sleep of 1 ms, late by, p99"
    return [
        Row("delayed message, late by, p50", "ms", middle, said, asleep),
        Row("delayed message, late by, p99", "ms", high, said, asleep, 20, higher_is_better=False),
    ]
