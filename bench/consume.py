"""Consumer groups: how fast a member reads, how soon it gets a message, and the cost of idle
members.

Members run in processes of their own, as a user's would.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from array import array
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

from ..client.consuming.consumer import Consumer
from ..client.consuming.message_view import MessageView
from ..client.groups.group_consumer import GroupConsumer
from ..client.producing.producer import Producer
from .children import WAIT_S, child, cpu_ns, hear, write
from .rows import BATCH, Plan, Row
from .store import BenchStore

_RATE = 10_000
_IDLE_MEMBERS = 1000
_PROCESSES = 4
_TIME = 8  # bytes of a body that hold the time of sending


def consuming(plan: Plan, hand_over_us: list[float]) -> list[Row]:
    """All figures of consumer groups."""
    rows = [_reading(plan), *_latency(plan, hand_over_us)]
    hand_over_percent = [us / 1e4 for us in hand_over_us]
    for name, groups in (("one group", 1), ("as many groups", _IDLE_MEMBERS)):
        rows.append(_idle(plan, name, groups, hand_over_percent))
    return rows


def _store(plan: Plan, *settings: str) -> BenchStore:
    return BenchStore(plan.folder, f"mapped_file_size_commit_log={plan.file_size}", *settings)


def _reading(plan: Plan) -> Row:
    """The rate of a member's `poll`, which acknowledges everything, beside a plain consumer's."""
    member, plain = [], []
    with _store(plan) as store:
        batches = plan.count(1_000_000) // BATCH
        with Producer(store.folder, timeout=60) as producer:
            for _ in range(batches):
                producer.send_batch_oneway("bench", [b"x" * 128] * BATCH, queue=0)
            producer.flush(60)
        store.wait_dispatched()
        store.settle()
        for run in range(plan.runs):
            with Consumer(store.folder, "bench", queues=[0]) as consumer:
                plain.append(_rate(partial(consumer.poll, BATCH), batches * BATCH))
            with GroupConsumer(store.folder, f"reading{run}", "bench", start="earliest") as reader:
                first = reader.poll(1, 10)  # until the member has its queues
                member.append(_rate(partial(reader.poll, BATCH), batches * BATCH - len(first)))
    said = "poll of a Consumer"
    return Row("group poll, bodies touched, 128 B", "msg/s", member, said, plain, 1e6)


def _rate(poll: Callable[[], list[MessageView]], count: int) -> float:
    """Messages a second, until `count` have been read."""
    gc.collect()
    start, left = time.perf_counter(), count
    while left > 0:
        found = poll()
        for message in found:
            _ = message.body
        left -= len(found)
    return count / (time.perf_counter() - start)


# -- latency


def _latency(plan: Plan, hand_over_us: list[float]) -> list[Row]:
    """The time from `send_oneway` to the callback, or to the loop's body, at 10,000 messages a
    second.
    """
    rows = []
    count = plan.count(50_000)
    said = "futex there and back"
    for name, receive in (("listen", _listen), ("iterate", _iterate)):
        middle, high = [], []
        with _store(plan) as store, Producer(store.folder) as producer:
            store.admin.create_topic("bench", 1)
            _send_steadily(producer, plan.count(5_000))  # makes the queue and the index
            store.settle()
            for run in range(plan.runs):
                with child(partial(receive, store.folder, f"{name}{run}", count)) as fd:
                    hear(fd, "it has its queues")
                    _send_steadily(producer, count)
                    taken = array("d")
                    while len(taken) < count:
                        taken.frombytes(hear(fd, "it has all messages"))
                found = sorted(taken)
                middle.append(found[count // 2])
                high.append(found[count * 99 // 100])
        for what, samples, bar in (("p50", middle, 25), ("p99", high, 200)):
            figure = f"send to {name}, {_RATE:,} msg/s, {what}"
            rows.append(Row(figure, "us", samples, said, hand_over_us, bar, higher_is_better=False))
    return rows


def _send_steadily(producer: Producer, count: int) -> None:
    pause = 1 / _RATE
    due = time.perf_counter()
    for _ in range(count):
        due += pause
        left = due - time.perf_counter()
        if left > 0:
            time.sleep(left)
        now = time.perf_counter_ns()
        producer.send_oneway("bench", now.to_bytes(_TIME, "little") + b"x" * 120)


def _since(message: MessageView) -> float:
    """Microseconds since the message was sent."""
    return (time.perf_counter_ns() - int.from_bytes(message.body[:_TIME], "little")) / 1e3


def _member(folder: Path, group: str, fd: int) -> GroupConsumer:
    """A member that has its queues. It writes a byte to `fd` when it has them."""
    member = GroupConsumer(folder, group, "bench")
    while not any(topic == "bench" for topic, _ in member.assignment):
        member.poll(1, 0.01)
    os.write(fd, b".")
    return member


def _listen(folder: Path, group: str, count: int, fd: int) -> None:
    taken = array("d")
    done = threading.Event()

    def take(message: MessageView) -> None:
        taken.append(_since(message))
        if len(taken) == count:
            done.set()

    with _member(folder, group, fd) as member:
        member.listen(take)
        done.wait(WAIT_S)
    write(fd, taken.tobytes())


def _iterate(folder: Path, group: str, count: int, fd: int) -> None:
    with _member(folder, group, fd) as member:
        taken = array("d", map(_since, islice(member, count)))
    write(fd, taken.tobytes())


# -- idle members


def _idle(plan: Plan, name: str, groups: int, hand_over_percent: list[float]) -> Row:
    """The CPU time of members that wait in `poll(timeout=15)`, and of the store's processes."""
    import psutil

    full = plan.scale >= 1
    count = _IDLE_MEMBERS if full else 40
    queues = count if groups == 1 else 4
    seconds = 30.0 if full else 1.0
    used = []
    settings = ("max_sessions=1100", "max_topics=4096", "max_queues=16384")
    with _store(plan, *settings) as store, contextlib.ExitStack() as children:
        store.admin.create_topic("bench", queues)
        each = count // _PROCESSES
        fds = []
        for first in range(0, count, each):
            names = [f"idle{i % groups}" for i in range(first, first + each)]
            fds.append(children.enter_context(child(partial(_wait, store.folder, names))))
        for fd in fds:
            hear(fd, "its members have joined")
        _await_assignment(store, queues, groups if groups == 1 else count)
        time.sleep(seconds / 3)  # long enough for all members to begin waiting
        pids = [child.pid for child in psutil.Process().children(recursive=True)]
        for _ in range(max(1, plan.runs // 2)):
            before, start = cpu_ns(pids), time.perf_counter_ns()
            time.sleep(seconds)
            used.append((cpu_ns(pids) - before) / (time.perf_counter_ns() - start) * 100)
    return Row(
        f"{count:,} idle members, {name}",
        "% of a core",
        used,
        "one hand-over a second",
        hand_over_percent,
        2,
        higher_is_better=False,
    )


def _wait(folder: Path, groups: list[str], fd: int) -> None:
    """Members of `groups`, each in a thread that polls for ever."""
    threading.stack_size(256 << 10)
    members = [GroupConsumer(folder, group, "bench") for group in groups]

    def poll(member: GroupConsumer) -> None:
        while True:
            member.poll(32, 15)

    threads = [threading.Thread(target=poll, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    os.write(fd, b".")
    for thread in threads:
        thread.join()


def _await_assignment(store: BenchStore, queues: int, groups: int) -> None:
    """Waits until each queue of the topic has a member in each group. Raises RuntimeError."""
    deadline = time.monotonic() + WAIT_S
    for i in range(groups):
        while True:
            state = store.admin.group(f"idle{i}")
            if sum(q.topic == "bench" and q.member > 0 for q in state.queues) == queues:
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"group idle{i}: its queues are not divided")
            time.sleep(0.05)
