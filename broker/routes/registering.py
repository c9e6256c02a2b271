"""`Registrar`: registers the broker with name servers, with each in a thread of its own."""

from __future__ import annotations

import queue
import socket
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ...conf.broker_settings import BrokerSettings
from ...store.names import SELF_TEST_TOPIC
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import BadFrame, Command, decode
from ..wire.frames import FrameReader
from ..wire.route_data import Queues

#: Whether a name server knows the broker: it was not asked yet, or it does, or it does not.
State: TypeAlias = Literal["asked", "registered", "failed"]
#: RocketMQ's registerNameServerPeriod (s).
PERIOD_S: Final = 30.0
#: A name server that does not know the broker is tried again after so long (s).
_AGAIN_S: Final = 2.0
#: How long the end waits for name servers that do not answer (s).
_END_S: Final = 2.0
_CONNECT_S: Final = 3.0
_ANSWER_S: Final = 6.0
_RECEIVE: Final = 1 << 16
#: RocketMQ's brokers always register this topic. A name server does not take a new broker that has
#: one topic only.
_SELF_TEST: Final = Queues(1, 1, 6)


class _News(NamedTuple):
    """The broker's topics, and their version."""

    topics: dict[str, Queues]
    counter: int
    changed_ms: int


class _NameServer:
    """A connection to one name server, made again when it is lost."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._end: socket.socket | None = None
        self._frames = FrameReader()
        self._opaque = 0

    def ask(self, request: Command) -> Command:
        """The answer to a request. One that an old connection does not take is sent again by a new
        one. Raises OSError, BadFrame, ValueError.
        """
        if self._end is not None:
            try:
                return self._ask(self._end, request)
            except (ConnectionError, BadFrame):
                self.close()
        host, _, port = self.address.rpartition(":")
        self._end = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S)
        self._frames = FrameReader()
        return self._ask(self._end, request)

    def _ask(self, end: socket.socket, request: Command) -> Command:
        self._opaque += 1
        request.opaque = self._opaque
        deadline = time.monotonic() + _ANSWER_S
        end.settimeout(_ANSWER_S)
        end.sendall(request.encode())
        while True:
            while (frame := self._frames.take()) is not None:
                answer = decode(frame)
                if answer.opaque == self._opaque:
                    return answer
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("it does not answer")
            end.settimeout(left)
            data = end.recv(_RECEIVE)
            if not data:
                raise ConnectionResetError("it closed the connection")
            self._frames.feed(data)

    def close(self) -> None:
        """Ends the connection: the name server then forgets the broker."""
        end, self._end = self._end, None
        if end is not None:
            end.close()


class _Registration(threading.Thread):
    """Keeps the broker registered with one name server. `command` makes a request to it."""

    def __init__(
        self, address: str, command: Callable[[RequestCode], Command], logger: Any
    ) -> None:
        super().__init__(name="silomq-broker-registration", daemon=True)
        self._server = _NameServer(address)
        self._command = command
        self._logger = logger
        self._said = ""  # the last problem that was logged
        self._asked = False
        self.news: queue.SimpleQueue[_News | None] = queue.SimpleQueue()

    def run(self) -> None:
        """Registers with all news, and again every 30 s, until None comes. Then unregisters."""
        latest = self.news.get()
        while latest is not None:
            self._say(_registration(self._command(RequestCode.REGISTER_BROKER), latest))
            latest = self._wait(latest)
        self._say(self._command(RequestCode.UNREGISTER_BROKER))
        self._server.close()

    def _wait(self, latest: _News) -> _News | None:
        """The last news after some time, or at once if there are others."""
        try:
            found = self.news.get(timeout=_AGAIN_S if self._said else PERIOD_S)
            while not self.news.empty() and found is not None:
                found = self.news.get()
        except queue.Empty:
            return latest
        return found

    def _say(self, request: Command) -> None:
        problem = ""
        try:
            answer = self._server.ask(request)
            if answer.code != ResponseCode.SUCCESS:
                problem = f"it answers {answer.code}: {answer.remark}"
        except (OSError, BadFrame, ValueError) as error:
            problem = str(error)
            self._server.close()
        address = self._server.address
        if problem and problem != self._said:
            self._logger.warning(
                "a name server does not know this broker", address=address, why=problem
            )
        elif not problem and self._said:
            self._logger.info("registered with a name server again", address=address)
        self._said = problem
        self._asked = True

    def state(self) -> tuple[str, State, str]:
        """The name server's address, and why it does not know the broker. For any thread."""
        problem = self._said
        state: State = "failed" if problem else "registered" if self._asked else "asked"
        return self._server.address, state, problem


class Registrar:
    """Keeps the broker at `address` registered with all name servers of the settings. One that
    does not answer holds up no other.
    """

    def __init__(self, settings: BrokerSettings, address: str, logger: Any) -> None:
        self._settings = settings
        self._address = address
        self._news = _News({}, 0, 0)
        self._threads = [
            _Registration(server, self._command, logger) for server in settings.name_servers
        ]
        for thread in self._threads:
            thread.start()

    def tell(self, topics: Mapping[str, Queues]) -> None:
        """Registers these topics soon, and again every 30 s."""
        found = {SELF_TEST_TOPIC: _SELF_TEST, **topics}
        if found != self._news.topics:
            self._news = _News(found, self._news.counter + 1, time.time_ns() // 1_000_000)
        for thread in self._threads:
            thread.news.put(self._news)

    def states(self) -> list[tuple[str, State, str]]:
        """Of each name server its address, its state, and the problem of one that has failed."""
        return [thread.state() for thread in self._threads]

    def end(self) -> None:
        """Unregisters from all name servers that answer soon."""
        deadline = time.monotonic() + _END_S
        for thread in self._threads:
            thread.news.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _command(self, code: RequestCode) -> Command:
        fields = {
            "brokerAddr": self._address,
            "brokerId": "0",
            "brokerName": self._settings.broker_name,
            "clusterName": self._settings.broker_cluster_name,
            "haServerAddr": self._address,
        }
        return Command(code, fields)


def _registration(request: Command, news: _News) -> Command:
    """The request with the broker's topics in it."""
    version = {"counter": news.counter, "stateVersion": 0, "timestamp": news.changed_ms}
    table = {name: _config(name, queues) for name, queues in news.topics.items()}
    wrapper = {"dataVersion": version, "topicConfigTable": table}
    body = route_data.encode({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})
    request.body = body
    request.fields |= {
        "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
        "compressed": "false",
        "enableActingMaster": "false",
    }
    return request


def _config(name: str, queues: Queues) -> dict[str, Any]:
    """A topic as RocketMQ's brokers register it (TopicConfig)."""
    return {
        "attributes": {},
        "order": False,
        "perm": queues.perm,
        "readQueueNums": queues.read,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": queues.sys_flag,
        "writeQueueNums": queues.write,
    }
