"""Listeners of members that pop: what is acknowledged, what comes again, and when."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from e2e.groups.test_popping import member, offsets, send, texts
from support.harness import StoreProcess, eventually, kill_now

from silomq import Admin, StoreClosed
from silomq.client.groups import popped_messages

if TYPE_CHECKING:
    from pathlib import Path

    from silomq import MessageView


class Taken:
    """A callback that notes its messages."""

    def __init__(self) -> None:
        self.calls: list[tuple[bytes, int]] = []

    def __call__(self, message: MessageView) -> None:
        self.calls.append((message.body, message.reconsume_times))


@pytest.mark.parametrize("concurrency", [1, 4])
def test_every_message_once_and_acknowledged(
    store: StoreProcess, topic: str, concurrency: int
) -> None:
    taken = Taken()
    with member(store, topic) as first, member(store, topic) as second:
        for one in (first, second):
            one.listen(taken, concurrency=concurrency)
        bodies = send(store, topic, 2000)
        eventually(lambda: len(taken.calls) == 2000, "all are consumed")
        eventually(lambda: offsets(store, topic) == 2000, "all are acknowledged")
        with pytest.raises(RuntimeError, match="go to the callback"):
            first.poll()
    assert sorted(taken.calls) == [(body, 0) for body in bodies]


def test_what_fails_comes_again_and_then_is_dead(
    store: StoreProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(popped_messages, "LEVELS_S", (0.3, 0.3))
    begun: list[tuple[bytes, float]] = []

    def fail(message: MessageView) -> bool | None:
        if message.body > b"00001":
            return None
        begun.append((message.body, time.monotonic()))
        if message.body == b"00001":
            raise RuntimeError("as a callback may")
        return False

    send(store, topic, 10)
    with member(store, topic, max_reconsume_times=2) as only:
        only.listen(fail)
        eventually(lambda: offsets(store, topic) == 10, "the hopeless are dead")
    assert Counter(body for body, _ in begun) == {b"00000": 3, b"00001": 3}
    times = [at for body, at in begun if body == b"00000"]
    assert all(0.3 <= later - at < 3 for at, later in itertools.pairwise(times))
    with member(store, f"%DLQ%g-{topic}") as dead:
        assert texts(dead.poll(timeout=10)) == [b"00000", b"00001"]


def test_what_waits_for_long_goes_to_another_member(store: StoreProcess, topic: str) -> None:
    """A callback that takes long holds up its own message only."""
    slow, fast, hold = Taken(), Taken(), threading.Event()

    def take(message: MessageView) -> None:
        slow(message)
        if message.body == b"00500":
            hold.wait(30)

    bodies = send(store, topic, 1000)
    with member(store, topic, invisible=4.0) as first, member(store, topic) as second:
        first.listen(take)
        eventually(lambda: slow.calls and slow.calls[-1][0] == b"00500", "it is in the callback")
        second.listen(fast)
        eventually(lambda: len(slow.calls) + len(fast.calls) >= 1001, "all others")
        assert (b"00500", 1) in fast.calls, "its time was over"
        hold.set()
        eventually(lambda: offsets(store, topic) == 1000, "all are acknowledged")
    assert sorted(body for body, _ in slow.calls + fast.calls) == sorted([*bodies, b"00500"])


def test_a_stop_gives_back_what_no_callback_has_seen(store: StoreProcess, topic: str) -> None:
    taken = Taken()
    send(store, topic, 3000)
    with member(store, topic) as only:
        done = threading.Event()

        def take(message: MessageView) -> None:
            taken(message)
            if len(taken.calls) == 1500:
                only.close()
                done.set()

        listener = only.listen(take, concurrency=1)
        assert done.wait(30)
        listener.wait(10)
    with member(store, topic) as other:
        rest = other.poll(3000, timeout=5)
        while more := other.poll(3000):
            rest += more
        assert {message.reconsume_times for message in rest} == {0}
        assert len(taken.calls) + len(rest) == 3000
        with pytest.raises(StoreClosed):
            only.ack([])


_LISTENER = """
import sys, time
from silomq import GroupConsumer
from silomq.client.errors import StoreClosed
store, topic, out = sys.argv[1:]
done = open(out, "a", buffering=1)
def note(message):
    time.sleep(0.002)
    done.write(message.body.decode() + chr(10))
while True:
    try:
        with GroupConsumer(store, "g-" + topic, topic, mode="pop", start="earliest",
                           invisible=1.0) as member:
            member.listen(note, concurrency=2).wait()
    except StoreClosed:
        time.sleep(0.05)
"""


def test_no_message_is_lost_when_processes_are_killed(tmp_path: Path) -> None:
    """Listeners, the registry and all processes at once: each message reaches a callback, and what
    comes twice is what a killed listener had not told yet.
    """
    count, outs = 3000, [tmp_path / "out0", tmp_path / "out1"]
    with StoreProcess(tmp_path / "store") as own:
        with Admin(own.path) as admin:
            admin.create_topic("work", 1)
        bodies = [body.decode() for body in send(own, "work", count)]
        command = [sys.executable, "-P", "-c", _LISTENER, str(own.path), "work"]
        listeners = [subprocess.Popen([*command, str(out)]) for out in outs]
        try:
            eventually(lambda: outs[0].exists() and outs[0].stat().st_size > 600, "it is at work")
            kill_now(listeners[0].pid)
            listeners[0].wait()
            listeners[0] = subprocess.Popen([*command, str(outs[0])])
            own.await_successor("registry", own.kill("registry"))
            own.crash()
            own.start()

            def done() -> list[str]:
                return [line for out in outs if out.exists() for line in out.read_text().split()]

            eventually(lambda: set(done()) == set(bodies), "each reached a callback", 60)
            eventually(lambda: offsets(own, "work") == count, "all are acknowledged", 60)
            settled = len(done())
            time.sleep(1.5)
            assert len(done()) == settled, "what was acknowledged comes again"
        finally:
            for listener in listeners:
                kill_now(listener.pid)
                listener.wait()
        assert "Traceback" not in own.log(), own.log()[-5000:]
