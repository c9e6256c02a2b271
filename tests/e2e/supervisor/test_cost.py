"""What a store costs: CPU when nothing happens, memory under load."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.harness import LONG, PYTHON, StoreProcess

from silomq import Producer

if TYPE_CHECKING:
    pass


ANON_KIB = 40 * 1024
CLIENTS = """
import sys
from silomq import Admin, Consumer, Producer
producer = Producer(sys.argv[1])
producer.send("t", b"x")
consumer = Consumer(sys.argv[1], "t")
while not consumer.poll(1, 5.0):
    pass
print("idle", flush=True)
while True:
    consumer.poll(32, 5.0)
"""


def _cpu_ns(pid: int) -> int:
    """Time on a CPU of all threads of a process: finer than the ticks of /proc/*/stat."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


@pytest.mark.parametrize(
    ("mode", "idle_s"),
    [
        ("ASYNC_FLUSH", 4.0),
        pytest.param("ASYNC_FLUSH", 8.0, marks=LONG),
        pytest.param("SYNC_FLUSH", 8.0, marks=LONG),
    ],
)
def test_an_idle_store_costs_nothing(
    tmp_path: Path, mode: str, idle_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    with StoreProcess(tmp_path / "store", flush_disk_type=mode) as store:
        client = subprocess.Popen(
            [*PYTHON, "-c", CLIENTS, store.path], stdout=subprocess.PIPE, text=True
        )
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == "idle\n"
            time.sleep(1.5)  # the first message is flushed
            family = store.family()
            before = [_cpu_ns(pid) for pid in (*family, client.pid)]
            began = time.monotonic()
            time.sleep(idle_s)
            seconds = time.monotonic() - began
            after = [_cpu_ns(pid) for pid in (*family, client.pid)]
        finally:
            client.kill()
            client.wait()
            assert client.stdout is not None
            client.stdout.close()
        shares = [(a - b) / 1e7 / seconds for a, b in zip(after, before, strict=True)]
        anonymous = {actor: _anonymous_kib(pid) for actor, pid in store.pids().items()}
    with capsys.disabled():
        print(
            f"\nidle {mode}: {sum(shares):.2f} % of one core in all, the client's producer and"
            f" consumer {shares[-1]:.2f} %; RssAnon at most {max(anonymous.values())} KiB"
        )
    assert sum(shares) < 1.0, dict(zip(("supervisor", "others"), shares, strict=False))
    assert max(anonymous.values()) < ANON_KIB, anonymous


def _anonymous_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise AssertionError("no RssAnon: the kernel is too old")


def test_actors_stay_small_under_load(tmp_path: Path) -> None:
    """Anonymous memory does not grow with what goes through: 60,000 messages, 500 topics."""
    with StoreProcess(tmp_path / "store", max_topics=600, max_queues=4000) as store:
        with Producer(store.path, timeout=10.0) as producer:
            for i in range(500):
                producer.send_oneway(f"topic-{i}", b"x")
            for _ in range(600):
                producer.send_batch_oneway("alpha", [b"x" * 200] * 100)
            producer.flush(20)
        store.await_dispatch()
        sizes = {actor: _anonymous_kib(pid) for actor, pid in store.pids().items()}
        assert max(sizes.values()) < ANON_KIB, sizes
