"""Servers that RocketMQ's clients connect to: a broker, found by the name server that it registers
with.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from interop.rocketmq import require
from interop.servers import BROKER, real_broker
from support.brokers import BrokerProcess
from support.harness import StoreProcess, eventually
from support.name_servers import Peer, name_server

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

#: Seconds of the delay levels 1 to 18, so that no test waits for minutes.
DELAYS_S = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90)
QUEUES = 4


#: Producers of transactions are asked soon.
TRANSACTIONS = {"transactionTimeOut": "1000", "transactionCheckInterval": "1000"}
#: Files small enough that a broker of RocketMQ starts quickly.
SMALL = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "maxMessageSize": str(1 << 18),
    "mappedFileSizeConsumeQueue": "20000",
    "timerWheelEnable": "false",
    "diskMaxUsedSpaceRatio": "99",
    "autoCreateTopicEnable": "true",
    **TRANSACTIONS,
}


class Server:
    """A broker, known by the address of its name server. It makes topics when it is asked to."""

    def __init__(self, kind: str, names: str, restart: Callable[[], None]) -> None:
        self.kind = kind
        self.names = names
        #: Kills the broker and starts it again.
        self.restart = restart
        with self._peer(names) as peer:
            registered = {"topic": "TBW102"}
            eventually(lambda: peer.ask(105, registered).code == 0, "the broker registers", 90)
        route = self.route("TBW102")
        assert route is not None
        self.broker_name: str = route["brokerDatas"][0]["brokerName"]
        self.broker_address: str = route["brokerDatas"][0]["brokerAddrs"]["0"]

    def route(self, topic: str) -> dict[str, Any] | None:
        """The route of a topic, if there is one."""
        with self._peer(self.names) as peer:
            answer = peer.ask(105, {"topic": topic, "acceptStandardJsonOnly": "true"})
        return json.loads(answer.body) if answer.code == 0 else None

    def make_topic(self, name: str) -> str:
        fields = {
            "topic": name, "defaultTopic": "TBW102", "readQueueNums": str(QUEUES),
            "writeQueueNums": str(QUEUES), "perm": "6", "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        with self._peer(self.broker_address) as peer:
            answer = peer.ask(17, fields)
        assert answer.code == 0, answer
        eventually(lambda: self.route(name) is not None, f"the topic {name} is registered")
        return name

    def make_group(self, name: str, retries: int) -> str:
        """A group whose messages come again so often, where the client does not say how often."""
        config = {
            "groupName": name, "retryMaxTimes": retries, "retryQueueNums": 1,
            "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
        }  # fmt: skip
        with self._peer(self.broker_address) as peer:
            answer = peer.ask(200, body=json.dumps(config).encode())
        assert answer.code == 0, answer
        return name

    def bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The lowest queue offset, and the one behind the last message."""
        fields = {"topic": topic, "queueId": str(queue)}
        with self._peer(self.broker_address) as peer:
            lowest, end = peer.ask(31, fields), peer.ask(30, fields)
        return int(lowest.fields["offset"]), int(end.fields["offset"])

    @staticmethod
    @contextlib.contextmanager
    def _peer(address: str) -> Iterator[Peer]:
        peer = Peer(address)
        try:
            yield peer
        finally:
            peer.close()


@contextlib.contextmanager
def rocketmq_server(folder: Path, **settings: str) -> Iterator[Server]:
    """RocketMQ's broker, registered with `silo names`, with further settings of its own."""
    require(BROKER)
    delays = " ".join(f"{seconds}s" for seconds in DELAYS_S)
    with (
        name_server(folder) as names,
        real_broker(
            folder / "broker", names.address, {**SMALL, "messageDelayLevel": delays, **settings}
        ) as broker,
    ):

        def restart() -> None:
            broker.restart()
            eventually(lambda: server.route("TBW102") is None, "the killed broker is forgotten")
            eventually(lambda: server.route("TBW102"), "it registers again", 90)

        server = Server("rocketmq", names.address, restart)
        yield server


@contextlib.contextmanager
def silomq_server(folder: Path) -> Iterator[Server]:
    """`silo broker`, which is its own name server."""
    delays = " ".join(f"{seconds}s" for seconds in DELAYS_S)
    store = StoreProcess(
        folder / "store",
        store_port=free_port(),
        message_delay_level=delays,
        mapped_file_size_commit_log=1 << 22,
        max_message_size=1 << 20,
        transaction_timeout_ms=TRANSACTIONS["transactionTimeOut"],
        transaction_check_interval_ms=TRANSACTIONS["transactionCheckInterval"],
    )
    with store, BrokerProcess(store.path, "enablePropertyFilter=true") as broker:

        def restart() -> None:
            broker.kill()
            broker.start()

        yield Server("silomq", broker.address, restart)


#: The kinds of servers that the clients are run against.
SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "rocketmq": rocketmq_server,
    "silomq": silomq_server,
}
