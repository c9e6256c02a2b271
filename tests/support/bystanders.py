"""A client that only wants to be served while others attack its broker, and the broker's memory."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from support.broker_requests import TOPIC
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from types import TracebackType

    from support.brokers import BrokerProcess

_PAUSE_S = 0.002


def memory_mib(broker: BrokerProcess) -> float:
    """What the broker has in memory of its own, without the files that it maps."""
    status = Path(f"/proc/{broker.running.pid}/status").read_text(encoding="ascii")
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


class Bystander:
    """Asks for an offset all the time, on one connection, in a thread. At the end it prints the
    slowest of its answers, and what the broker's memory was before and after.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._taken: list[float] = []
        self._ends = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self.before = memory_mib(broker)

    def _run(self) -> None:
        try:
            with RemotingClient(self._broker.address) as client:
                while not self._ends.is_set():
                    began = time.monotonic()
                    assert client.ask(30, {"topic": TOPIC, "queueId": 0}).code == 0
                    self._taken.append(time.monotonic() - began)
                    time.sleep(_PAUSE_S)
        except Exception as error:  # noqa: BLE001 - the test gets it
            self._failure = error

    @property
    def grown_mib(self) -> float:
        """How much the broker's memory has grown since the begin."""
        return memory_mib(self._broker) - self.before

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()
        taken = sorted(self._taken) or [0.0]
        p99 = taken[int(len(taken) * 0.99)] * 1000
        print(
            f"others: {len(taken)} answers, p99 {p99:.1f} ms, slowest {taken[-1] * 1000:.0f} ms; "
            f"broker: {self.before:.0f} MiB before, {memory_mib(self._broker):.0f} MiB after"
        )
        assert kind is not None or self._failure is None, self._failure
