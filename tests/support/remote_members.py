"""Members of a consumer group, for tests: one that acts on the network as RocketMQ's push consumers
do, and one that is a process of its own with a `GroupConsumer`.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

from support.harness import WAIT_S, eventually, kill_now
from support.remoting_client import Disconnected, RemotingClient

from silomq.store.record.format import decode_record

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from silomq.broker.wire.command import Command

Queue = tuple[str, int]
#: How often a member looks at the list of members by itself, commits, and sends heart-beats (s).
REBALANCE_S, COMMIT_S, BEAT_S = 2.0, 0.5, 1.0
_TIMEOUT_S = 5.0
_STEP_S = 0.01
_COMMITS, _SUSPENDS, _SUBSCRIBES = 1, 2, 4


class _Reading:
    """A queue that a member reads: the next offset, and the pull that is under way."""

    def __init__(self, offset: int) -> None:
        self.next = self.done = offset
        self.pull = 0


class RemoteMember:
    """A push consumer of one topic with `queues` queues, and of its group's retry topic, in a
    thread. It goes on when its connection ends. `bodies` are the messages that it has consumed, in
    their order. It divides by averaging over the sorted client ids.
    """

    def __init__(
        self, address: str, group: str, topic: str, queues: int, name: str, *, orderly: bool = False
    ) -> None:
        self.group, self.topic, self.name, self.orderly = group, topic, name, orderly
        self.bodies: list[int] = []
        self.reading: dict[Queue, _Reading] = {}
        self._address = address
        self._counts = {topic: queues, f"%RETRY%{group}": 1}
        self._client: RemotingClient | None = None
        self._due = {"rebalance": 0.0, "commit": time.monotonic() + COMMIT_S, "beat": 0.0}
        self._ends = threading.Event()
        self._leaves = True
        self._thread = threading.Thread(target=self._run, name=name)

    # -- what a test does

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Commits, leaves the group and ends, as `shutdown` does."""
        self._ends.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def die(self) -> None:
        """Ends without a word."""
        self._leaves = False
        self.stop()

    def queues(self) -> list[int]:
        """The ids of the topic's queues that it reads now."""
        return sorted(queue_id for topic, queue_id in list(self.reading) if topic == self.topic)

    # -- its thread

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                if self._client is None:
                    self._client = RemotingClient(self._address)
                    self._due["beat"] = 0.0
                    for one in self.reading.values():
                        one.pull = 0
                self._turn(self._client)
            except (OSError, Disconnected, AssertionError):
                self._drop()
                self._ends.wait(0.05)
        with contextlib.suppress(OSError, Disconnected, AssertionError):
            if self._leaves and self._client is not None:
                self._commit(self._client)
                self._ask(self._client, 35, {"clientID": self.name, "consumerGroup": self.group})
        self._drop()

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _is_due(self, what: str, period_s: float) -> bool:
        if time.monotonic() < self._due[what]:
            return False
        self._due[what] = time.monotonic() + period_s
        return True

    def _turn(self, client: RemotingClient) -> None:
        if self._is_due("beat", BEAT_S):
            client.answer(client.send(34, body=self._heart_beat()), _TIMEOUT_S)
        if any(request.code == 40 for request in client.requests):
            client.requests.clear()
            self._due["rebalance"] = 0.0
        if self._is_due("rebalance", REBALANCE_S):
            for topic in self._counts:
                self._rebalance(client, topic)
        if self._is_due("commit", COMMIT_S):
            self._commit(client)
        for queue, one in self.reading.items():
            if not one.pull:
                one.pull = client.send(11, self._pull_fields(queue, one))
            elif one.pull in client.answers:
                self._consume(queue, one, client.answers.pop(one.pull))
        client.listen(_STEP_S)

    def _heart_beat(self) -> bytes:
        subscriptions = [
            {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
            for topic in self._counts
        ]
        consumer = {
            "groupName": self.group, "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING", "subscriptionDataSet": subscriptions,
        }  # fmt: skip
        data = {"clientID": self.name, "consumerDataSet": [consumer], "producerDataSet": []}
        return json.dumps(data).encode()

    def _ask(
        self, client: RemotingClient, code: int, fields: dict[str, object], body: bytes = b""
    ) -> Command:
        return client.answer(client.send(code, fields, body), _TIMEOUT_S)

    # -- dividing

    def _rebalance(self, client: RemotingClient, topic: str) -> None:
        answer = self._ask(client, 38, {"consumerGroup": self.group})
        if answer.code != 0:
            return
        names = sorted(json.loads(answer.body)["consumerIdList"])
        if self.name not in names:
            return
        share, more = divmod(self._counts[topic], len(names))
        place = names.index(self.name)
        first = place * share + min(place, more)
        mine = {(topic, i) for i in range(first, first + share + (place < more))}
        for queue in [q for q in self.reading if q[0] == topic and q not in mine]:
            one = self.reading.pop(queue)
            client.tell(15, self._commit_fields(queue, one))
            if self.orderly:
                client.tell(42, body=self._lock_body([queue]))
        for queue in sorted(mine - set(self.reading)):
            self._begin(client, queue)
        if self.orderly and self.reading:
            self._ask(client, 41, {}, self._lock_body(list(self.reading)))

    def _begin(self, client: RemotingClient, queue: Queue) -> None:
        if self.orderly:
            held = self._ask(client, 41, {}, self._lock_body([queue]))
            if not json.loads(held.body)["lockOKMQSet"]:
                return
        fields = {"consumerGroup": self.group, "topic": queue[0], "queueId": queue[1]}
        answer = self._ask(client, 14, fields)
        if answer.code == 22:
            self.reading[queue] = _Reading(0)
        elif answer.code == 0:
            self.reading[queue] = _Reading(int(answer.fields["offset"]))

    def _lock_body(self, queues: list[Queue]) -> bytes:
        places = [{"brokerName": "broker-a", "topic": t, "queueId": i} for t, i in queues]
        data = {"clientId": self.name, "consumerGroup": self.group, "mqSet": places}
        return json.dumps(data).encode()

    # -- consuming

    def _pull_fields(self, queue: Queue, one: _Reading) -> dict[str, object]:
        return {
            "consumerGroup": self.group, "topic": queue[0], "queueId": queue[1],
            "queueOffset": one.next, "maxMsgNums": 32, "commitOffset": one.done,
            "sysFlag": _SUSPENDS | _SUBSCRIBES | (_COMMITS if one.done else 0),
            "suspendTimeoutMillis": 1_000, "subscription": "*", "subVersion": 1,
            "expressionType": "TAG",
        }  # fmt: skip

    def _consume(self, queue: Queue, one: _Reading, answer: Command) -> None:
        one.pull = 0
        if answer.code == 21:  # the offset was reset
            one.done = int(answer.fields["nextBeginOffset"])
        elif answer.code not in {0, 19, 20}:
            return
        at = 0
        while answer.code == 0 and at < len(answer.body):
            record = decode_record(answer.body, at)
            self.bodies.append(int(record.body))
            one.done = record.queue_offset + 1
            at += record.total_size
        one.next = int(answer.fields["nextBeginOffset"])

    def _commit(self, client: RemotingClient) -> None:
        for queue, one in self.reading.items():
            client.tell(15, self._commit_fields(queue, one))

    def _commit_fields(self, queue: Queue, one: _Reading) -> dict[str, object]:
        return {
            "consumerGroup": self.group, "topic": queue[0], "queueId": queue[1],
            "commitOffset": one.done,
        }  # fmt: skip


_LOCAL = """
import os, signal, sys, time
from silomq import GroupConsumer, StoreError
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
out = os.open(sys.argv[4], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while not over:
    try:
        with GroupConsumer(sys.argv[1], sys.argv[2], sys.argv[3], start="earliest") as member:
            os.write(out, b"joined\\n")
            while not over:
                for message in member.poll(32, 0.1):
                    os.write(out, b"%d\\n" % int(message.body))
    except StoreError as error:
        os.write(out, b"lost\\n")
        time.sleep(0.1)
"""


class LocalMember:
    """A process with a `GroupConsumer`, which joins again when its session is lost. `bodies` are
    the messages that it has consumed.
    """

    def __init__(self, store: Path, group: str, topic: str, name: str) -> None:
        self.out = store.parent / f"{group}-{name}.out"
        command = [sys.executable, "-c", _LOCAL, str(store), group, topic, str(self.out)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        eventually(lambda: "joined" in self._lines(), "the member has joined")

    def _lines(self) -> list[str]:
        return self.out.read_text().splitlines() if self.out.exists() else []

    @property
    def bodies(self) -> list[int]:
        return [int(line) for line in self._lines() if line.isdecimal()]

    def stop(self) -> None:
        """Ends it: what it has is acknowledged."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT_S) == 0

    def die(self) -> None:
        kill_now(self.process.pid)
        self.process.wait()


class Members:
    """All members of a test, which ends those that are left."""

    def __init__(self, store: Path, address: str, group: str, topic: str, queues: int) -> None:
        self.all: list[RemoteMember | LocalMember] = []
        self._store = store
        self._address = address
        self._group, self._topic, self._queues = group, topic, queues

    def remote(self, name: str, *, orderly: bool = False) -> RemoteMember:
        found = RemoteMember(
            self._address, self._group, self._topic, self._queues, name, orderly=orderly
        )
        self.all.append(found)
        return found.start()

    def local(self) -> LocalMember:
        found = LocalMember(self._store, self._group, self._topic, f"m{len(self.all)}")
        self.all.append(found)
        return found

    def consumed(self) -> list[int]:
        """What all members have consumed, those that have ended too."""
        return [body for member in self.all for body in list(member.bodies)]

    def await_all(self, count: int, timeout_s: float = WAIT_S) -> None:
        """Waits until messages 0 to `count`-1 have been consumed."""
        wanted = set(range(count))
        eventually(lambda: wanted <= set(self.consumed()), "all is consumed", timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.all:
            if isinstance(member, RemoteMember) or member.process.poll() is None:
                member.die()
