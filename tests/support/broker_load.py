"""Load on a broker from clients that try again, as RocketMQ's do, with the same UNIQ_KEY."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import TYPE_CHECKING, Self

from support.broker_requests import pull_fields, send_fields
from support.harness import WAIT_S, eventually
from support.remoting_client import Disconnected, RemotingClient

from silomq.store.record.properties import UNIQ_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from silomq import MessageView
    from silomq.broker.wire.command import Command

#: Answers after which RocketMQ's producers try again: busy, not available, unknown errors.
AGAIN = frozenset((1, 2, 14))
_PAUSE_S = 0.02


class Patient:
    """A client that connects again when it must, until `ends` is set."""

    def __init__(self, address: str, ends: threading.Event) -> None:
        self._address = address
        self._ends = ends
        self._client: RemotingClient | None = None
        #: How often each code was answered, and how often a connection was lost (-1).
        self.codes: dict[int, int] = {}

    def ask(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> Command | None:
        """The answer to a request; None if the connection was lost, or there is none in time."""
        try:
            if self._client is None:
                self._client = RemotingClient(self._address)
            answer = self._client.answer(self._client.send(code, fields, body), 10)
        except (OSError, Disconnected, AssertionError):
            self._note(-1)
            self.close()
            self._ends.wait(_PAUSE_S)
            return None
        self._note(answer.code)
        return answer

    def _note(self, code: int) -> None:
        self.codes[code] = self.codes.get(code, 0) + 1

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


class Load:
    """Sends to the queues of one topic by some clients, while one member of `group` pulls queue 0
    and commits what it has got. As a context manager it runs until the end of the block.
    """

    def __init__(self, address: str, topic: str, *, senders: int = 3, queues: int = 2) -> None:
        self._address = address
        self.topic = topic
        self.group = f"{topic}-readers"
        self._queues = queues
        self._ends = threading.Event()
        #: UNIQ_KEY -> where the broker said that the message is: queue id, queue offset.
        self.acknowledged: dict[str, tuple[int, int]] = {}
        self.codes: list[dict[int, int]] = []
        #: The offset of queue 0 that was committed last, and one whose answer did not come.
        self.committed, self.uncertain = 0, 0
        self.errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guard, args=(self._send, number))
            for number in range(senders)
        ]
        self._threads.append(threading.Thread(target=self._guard, args=(self._consume, 0)))

    def _guard(self, work: object, number: int) -> None:
        client = Patient(self._address, self._ends)
        self.codes.append(client.codes)
        try:
            assert callable(work)
            work(client, number)
        except BaseException as error:  # noqa: BLE001 - the test gets it
            self.errors.append(error)
        finally:
            client.close()

    def _send(self, client: Patient, number: int) -> None:
        chance = random.Random(number)
        sequence = 0
        while not self._ends.is_set():
            key = f"{self.topic}-{number}-{sequence}"
            queue = chance.randrange(self._queues)
            fields = send_fields(self.topic, key, queueId=queue, defaultTopicQueueNums=self._queues)
            while not self._ends.is_set():
                answer = client.ask(10, fields, key.encode())
                if answer is None:
                    continue
                if answer.code == 0:
                    place = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])
                    self.acknowledged[key] = place
                    break
                assert answer.code in AGAIN, (answer.code, answer.remark)
                self._ends.wait(_PAUSE_S)
            sequence += 1
            time.sleep(0.001)

    def _consume(self, client: Patient, _: int) -> None:
        offset = 0
        place = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0}
        while not self._ends.is_set():
            more = {"consumerGroup": self.group, "sysFlag": 6, "suspendTimeoutMillis": 200}
            answer = client.ask(11, pull_fields(self.topic, offset, **more))
            if answer is None or answer.code in AGAIN | {17}:
                self._ends.wait(_PAUSE_S)
                continue
            assert answer.code in (0, 19, 20), (answer.code, answer.remark)
            following = int(answer.fields["nextBeginOffset"])
            assert following >= offset
            offset = following
            self.uncertain = offset
            answer = client.ask(15, {**place, "commitOffset": offset})
            if answer is not None and answer.code == 0:
                self.committed = offset

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join(WAIT_S)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        print(f"{len(self.acknowledged)} acknowledged, {self.committed} committed, {self.codes}")

    def await_more(self) -> None:
        """Waits until some more messages were acknowledged."""
        wanted = len(self.acknowledged) + 5
        eventually(lambda: len(self.acknowledged) > wanted, "the load goes on")

    def check(self, found: list[MessageView]) -> None:
        """Nothing that was acknowledged is lost, and it is where the broker said."""
        assert self.errors == []
        assert self.acknowledged, "nothing was acknowledged"
        there = {(view.queue_id, view.queue_offset): view for view in found}
        for key, place in self.acknowledged.items():
            assert place in there, (key, place)
            view = there[place]
            assert (view.properties[UNIQ_KEY], view.body) == (key, key.encode())
        for view in found:
            assert view.body == view.properties[UNIQ_KEY].encode(), "nobody sent this"

    def check_commit(self) -> None:
        """The group is where its last answered commit said."""
        assert self.committed > 0, "nothing was committed"
        with contextlib.closing(RemotingClient(self._address)) as client:
            fields = {"consumerGroup": self.group, "topic": self.topic, "queueId": 0}
            answer = client.ask(14, fields)
        assert answer.code == 0, answer.remark
        assert int(answer.fields["offset"]) in (self.committed, self.uncertain)
