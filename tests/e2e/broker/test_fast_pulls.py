"""Pulls that are served without Python are answered as those that are not, at any time."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interop.conformance.requests import beat, committed, pull_fields, subscription
from support.harness import eventually
from support.remoting_client import RemotingClient

from silomq import Admin, Producer
from silomq.bench.loopback import free_port
from silomq.broker.server import Broker
from silomq.broker.wire.address import Address
from silomq.broker.wire.command import Serialization
from silomq.conf.broker_settings import BrokerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.harness import StoreProcess

    from silomq.broker.wire.command import Command

COUNT = 400
PULL, COMMIT, SUSPEND, POSTED = 11, 1, 2, 4
#: Not ASCII: a frame with this field is decoded in the general way.
GENERAL = {"unknown": "\u00e9"}


class Served:
    """A broker in a thread of this process, and a client of it."""

    def __init__(self, store: StoreProcess) -> None:
        self._store = store
        self.broker = Broker(str(store.path), BrokerSettings())
        address = self.broker.listen(Address("127.0.0.1", free_port()), 10, lambda _: None)
        self._thread = threading.Thread(target=self.broker.loop.run)
        self._thread.start()
        self.client = RemotingClient(str(address))

    def close(self) -> None:
        self.client.close()
        self.broker.loop.call_from_thread(self.broker.loop.stop)
        self._thread.join()
        self.broker.close()

    def send(self, topic: str, count: int = COUNT) -> None:
        with Producer(self._store.path) as producer:
            for number in range(count):
                body = b"%d " % number * (number * 7 % 200 + 1)
                producer.send(topic, body, queue=0, tags="ABC"[number % 3])
        self._store.await_dispatch()

    def count(self) -> int:
        """How many pulls were served without Python."""
        return sum(self.broker.fast.pull.counted()[0].values())

    def pull(
        self, topic: str, offset: int, *, group: str = "g", **more: object
    ) -> tuple[Command, bool]:
        """An answer, and whether it was served without Python."""
        before = self.count()
        answer = self.client.ask(PULL, pull_fields(group, topic, offset, **more))
        return answer, self.count() > before

    def fast(self, topic: str, offset: int, *, group: str = "g", **more: object) -> Command:
        """An answer that was served without Python: those before it have taught it."""
        answer, fast = self.pull(topic, offset, group=group, **more)
        assert not fast
        for _ in range(200):
            answer, fast = self.pull(topic, offset, group=group, **more)
            if fast:
                return answer
            time.sleep(0.005)  # a group's first commit asks the store
        pytest.fail("no pull was served without Python")


@pytest.fixture(scope="module")
def served(store: StoreProcess) -> Iterator[Served]:
    found = Served(store)
    try:
        yield found
    finally:
        found.close()


def was_fast(pull: Callable[[], tuple[Command, bool]]) -> bool:
    return pull()[1]


def told(answer: Command) -> tuple[object, ...]:
    """All of an answer but the number of its request."""
    fields = list(answer.fields.items())
    return answer.code, answer.remark, fields, answer.body, answer.flag, answer.language


@pytest.mark.parametrize("form", Serialization)
def test_both_ways_answer_alike(served: Served, form: Serialization) -> None:
    topic = f"alike{form}"
    served.send(topic)
    served.client.form = form
    fast = 0

    @settings(deadline=None, max_examples=150)
    @given(
        offset=st.integers(-1, COUNT + 1),
        most=st.integers(-1, 40),
        max_bytes=st.sampled_from([None, 0, 1, 500, 5_000, 2**31 - 1, -1]),
        tags=st.sampled_from(["*", "A", "A || B", "none"]),
        code=st.sampled_from([11, 361]),
    )
    def check(offset: int, most: int, max_bytes: int | None, tags: str, code: int) -> None:
        nonlocal fast
        fields = pull_fields(
            "g", topic, offset, maxMsgNums=most, subscription=tags, maxMsgBytes=max_bytes
        )
        general = served.client.ask(code, {**fields, **GENERAL})
        before = served.count()
        assert told(served.client.ask(code, fields)) == told(general)
        fast += served.count() - before

    try:
        check()
    finally:
        served.client.form = Serialization.JSON
    assert fast > 30, "many were served without Python"


def test_a_commit_that_comes_with_a_pull(served: Served) -> None:
    served.send("committed", 50)
    for offset in (7, 30, 12):
        fields: dict[str, object] = {"sysFlag": POSTED | COMMIT, "commitOffset": offset}
        pull = partial(served.pull, "committed", 20, group="committing", **fields)
        eventually(partial(was_fast, pull), "it is served without Python")
        assert committed(served.client, "committing", "committed") == offset
    answer, fast = served.pull(
        "committed", 20, group="committing", sysFlag=POSTED | COMMIT, commitOffset=-1
    )
    assert (answer.code, fast) == (0, True)
    assert committed(served.client, "committing", "committed") == 12


def test_another_subscription_counts_at_once(served: Served) -> None:
    topic, group = "subscribed", "subscribers"
    served.send(topic, 60)
    beat(served.client, "c1", group, subscription(topic, "A", 5))
    first = served.fast(topic, 0, group=group, sysFlag=0, subVersion=5)
    assert b"TAGS\x01A" in first.body
    assert b"TAGS\x01B" not in first.body
    newer, fast = served.pull(topic, 0, group=group, sysFlag=0, subVersion=6)
    assert not fast
    assert b"TAGS\x01B" in newer.body, "the broker does not know this subscription yet"
    assert served.pull(topic, 0, group=group, sysFlag=0, subVersion=5)[1]
    beat(served.client, "c1", group, subscription(topic, "B", 6))
    for version in (5, 6, 6):
        answer, _ = served.pull(topic, 0, group=group, sysFlag=0, subVersion=version)
        assert b"TAGS\x01A" not in answer.body
        assert b"TAGS\x01B" in answer.body


def test_a_pull_that_brings_its_filter_and_one_that_does_not(served: Served) -> None:
    """Also with a version that no client sends."""
    topic, group = "mixed", "mixers"
    served.send(topic, 60)
    for version in (-1, 5):
        beat(served.client, "c1", group, subscription(topic, "A", version))
        for _ in range(3):
            own, _ = served.pull(topic, 0, group=group, sysFlag=0, subVersion=version)
            assert b"TAGS\x01B" not in own.body
            for tags, others in (("B", "AC"), ("C", "AB"), (None, "")):
                brought, _ = served.pull(topic, 0, group=group, subscription=tags)
                assert brought.code == 0
                assert not any(f"TAGS\x01{tag}".encode() in brought.body for tag in others)


def test_permission_and_deletion_count_at_once(served: Served, store: StoreProcess) -> None:
    served.send("taken", 20)
    with Admin(store.path) as admin:
        served.fast("taken", 0)
        admin.update_topic("taken", perm=2)
        assert served.pull("taken", 0)[0].code == 16
        admin.update_topic("taken", perm=6)
        assert served.pull("taken", 0)[0].code == 0
        admin.delete_topic("taken")
        assert served.pull("taken", 0)[0].code == 17


def test_a_group_that_may_not_consume_any_more(served: Served) -> None:
    served.send("refused", 20)
    served.fast("refused", 0, group="refused")
    settings_ = (
        b'{"groupName":"refused","consumeEnable":false,"retryQueueNums":1,"retryMaxTimes":3}'
    )
    assert served.client.ask(200, body=settings_).code == 0
    eventually(lambda: served.pull("refused", 0, group="refused")[0].code == 16, "it is refused")


def hold(served: Served, topic: str, offset: int, wait_ms: int, **more: object) -> int:
    """Sends a pull that is held without Python, and returns its opaque."""
    fields = {"sysFlag": POSTED | SUSPEND, "suspendTimeoutMillis": wait_ms, **more}
    served.fast(topic, 0, group="holders", subscription=more.get("subscription", "*"))
    before = served.count()
    opaque = served.client.send(PULL, pull_fields("holders", topic, offset, **fields))
    eventually(lambda: served.count() > before, "it is held")
    return opaque


def test_a_held_pull_gets_the_next_message(served: Served) -> None:
    served.send("held", 10)
    opaque = hold(served, "held", 10, 20_000)
    served.send("held", 1)
    answer = served.client.answer(opaque)
    assert answer.fields["nextBeginOffset"] == "11"
    fields = pull_fields("holders", "held", 10)
    assert told(served.client.ask(PULL, {**fields, **GENERAL})) == told(answer)


def test_a_held_pull_passes_what_nobody_wants(served: Served) -> None:
    served.send("sieve", 10)
    opaque = hold(served, "sieve", 10, 20_000, subscription="C")
    served.send("sieve", 2)  # A and B
    with pytest.raises(AssertionError, match="no answer"):
        served.client.answer(opaque, 0.3)
    served.send("sieve", 3)
    answer = served.client.answer(opaque)
    assert answer.fields["nextBeginOffset"] == "15"
    assert b"TAGS\x01C" in answer.body
    assert b"TAGS\x01A" not in answer.body


def test_a_held_pull_ends_in_time(served: Served) -> None:
    served.send("ends", 10)
    began = time.monotonic()
    answer = served.client.answer(hold(served, "ends", 10, 300))
    assert 0.29 < time.monotonic() - began < 10
    fields = {
        **pull_fields("holders", "ends", 10), "sysFlag": POSTED | SUSPEND,
        "suspendTimeoutMillis": 1,
    }  # fmt: skip
    assert told(served.client.ask(PULL, {**fields, **GENERAL})) == told(answer)
    assert answer.code == 19


def test_a_change_sends_a_held_pull_back(served: Served) -> None:
    served.send("changed", 10)
    opaque = hold(served, "changed", 10, 20_000)
    beat(served.client, "c1", "others", subscription("changed"))
    served.send("changed", 1)
    answer = served.client.answer(opaque)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (20, "10")
    opaque = hold(served, "changed", 11, 20_000)
    assert served.client.ask(215, {"topic": "changed"}).code == 0
    assert served.client.answer(opaque).code == 20
    assert served.pull("changed", 11)[0].code == 17


def test_a_reset_is_told_once(served: Served) -> None:
    served.send("reset", 40)
    group = "resetting"
    beat(served.client, "c1", group, subscription("reset"))
    served.fast("reset", 20, group=group, sysFlag=COMMIT, commitOffset=20, subVersion=1)
    served.client.send(222, {
        "topic": "reset", "group": group, "timestamp": -1, "isForce": "true", "offset": 5,
        "queueId": 0,
    })  # fmt: skip
    moved = None
    for _ in range(500):
        answer, _ = served.pull("reset", 20, group=group, sysFlag=COMMIT, commitOffset=20)
        if answer.code == 21:
            moved = answer
            break
        time.sleep(0.01)
    assert moved is not None
    assert moved.fields["nextBeginOffset"] == "5"
