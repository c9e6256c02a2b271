"""`Registrar`: registers the broker with name servers, in a thread of its own."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
import zlib
from collections.abc import Mapping
from typing import Any, Final

from ...conf.broker_settings import BrokerSettings
from ..wire import route_data
from ..wire.codes import RequestCode, ResponseCode
from ..wire.command import BadFrame, Command, decode
from ..wire.frames import FrameReader
from ..wire.route_data import Queues

#: RocketMQ's registerNameServerPeriod (s).
PERIOD_S: Final = 30.0
_CONNECT_S: Final = 3.0
_ANSWER_S: Final = 6.0
_RECEIVE: Final = 1 << 16


class _NameServer:
    """A connection to one name server, made again when it is lost."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.said = ""  # the last problem that was logged
        self._end: socket.socket | None = None
        self._frames = FrameReader()
        self._opaque = 0

    def ask(self, request: Command) -> Command:
        """The answer to a request. Raises OSError, BadFrame."""
        if self._end is None:
            host, _, port = self.address.rpartition(":")
            self._end = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S)
            self._frames = FrameReader()
        self._opaque += 1
        request.opaque = self._opaque
        self._end.settimeout(_ANSWER_S)
        self._end.sendall(request.encode())
        while True:
            while (frame := self._frames.take()) is not None:
                answer = decode(frame)
                if answer.opaque == self._opaque:
                    return answer
            data = self._end.recv(_RECEIVE)
            if not data:
                raise ConnectionResetError("it closed the connection")
            self._frames.feed(data)

    def close(self) -> None:
        """Ends the connection: the name server then forgets the broker."""
        end, self._end = self._end, None
        if end is not None:
            end.close()


class Registrar:
    """Keeps the broker at `address` registered with all name servers of the settings."""

    def __init__(self, settings: BrokerSettings, address: str, logger: Any) -> None:
        self._settings = settings
        self._address = address
        self._logger = logger
        self._servers = [_NameServer(server) for server in settings.name_servers]
        self._news: queue.SimpleQueue[dict[str, Queues] | None] = queue.SimpleQueue()
        self._topics: dict[str, Queues] = {}
        self._counter = 0
        self._changed_ms = 0
        self._thread = threading.Thread(
            target=self._run, name="silomq-broker-registration", daemon=True
        )
        if self._servers:
            self._thread.start()

    def tell(self, topics: Mapping[str, Queues]) -> None:
        """Registers these topics soon, and again every 30 s."""
        if self._servers:
            self._news.put(dict(topics))

    def end(self) -> None:
        """Unregisters from all name servers."""
        if self._servers:
            self._news.put(None)
            self._thread.join()

    def _run(self) -> None:
        while True:
            with contextlib.suppress(queue.Empty):
                news: dict[str, Queues] | None = self._news.get(timeout=PERIOD_S)
                while not self._news.empty() and news is not None:
                    news = self._news.get()
                if news is None:
                    break
                if news != self._topics:
                    self._topics = news
                    self._counter += 1
                    self._changed_ms = time.time_ns() // 1_000_000
            self._say(self._registration())
        self._say(self._command(RequestCode.UNREGISTER_BROKER))
        for server in self._servers:
            server.close()

    def _say(self, request: Command) -> None:
        for server in self._servers:
            problem = ""
            try:
                answer = server.ask(request)
                if answer.code != ResponseCode.SUCCESS:
                    problem = f"it answers {answer.code}: {answer.remark}"
            except (OSError, BadFrame, ValueError) as error:
                problem = str(error)
                server.close()
            if problem and problem != server.said:
                self._logger.warning(
                    "a name server does not know this broker", address=server.address, why=problem
                )
            elif not problem and server.said:
                self._logger.info("registered with a name server again", address=server.address)
            server.said = problem

    def _registration(self) -> Command:
        version = {"counter": self._counter, "stateVersion": 0, "timestamp": self._changed_ms}
        table = {name: _config(name, queues) for name, queues in self._topics.items()}
        wrapper = {"dataVersion": version, "topicConfigTable": table}
        body = route_data.encode({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})
        request = self._command(RequestCode.REGISTER_BROKER)
        request.body = body
        request.fields |= {
            "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF),
            "compressed": "false",
            "enableActingMaster": "false",
        }
        return request

    def _command(self, code: RequestCode) -> Command:
        fields = {
            "brokerAddr": self._address,
            "brokerId": "0",
            "brokerName": self._settings.broker_name,
            "clusterName": self._settings.broker_cluster_name,
            "haServerAddr": self._address,
        }
        return Command(code, fields)


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
