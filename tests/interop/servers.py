"""The servers that the conformance run is started against, and RocketMQ's own broker among them."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from interop.rocketmq import BUILD, JAVA, require
from support.brokers import BrokerProcess
from support.harness import LONG, StoreProcess, eventually
from support.name_servers import name_server
from support.remoting_client import RemotingClient
from support.small_settings import SMALL

from silomq.bench.broker.rocketmq import (
    RELEASE,
    Jvm,
    RocketMQBroker,
    RocketMQNameServer,
)
from silomq.bench.loopback import free_port
from silomq.conf.schema import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

#: The release whose broker the tests run.
BROKER = RELEASE
CLUSTER = "DefaultCluster"
NAME = "broker-a"
STARTS_WITHIN_S = 90.0


@dataclass(frozen=True)
class Manners:
    """What one server may do in another way than the next, both being right."""

    #: A request in the form ROCKETMQ is answered in it. RocketMQ's broker has one form for all.
    answers_in_kind: bool
    #: A message to a topic without the permission to write is refused. RocketMQ stores it.
    refuses_unwritable: bool
    #: A pull that brings an expression of SQL with an error is refused. RocketMQ lets all pass.
    refuses_bad_filters: bool
    #: A pull by a newer tag filter than the last heart-beat's gets all messages, for its client to
    #: filter. RocketMQ refuses it until the next heart-beat.
    serves_newer_filters: bool


@dataclass(frozen=True)
class Server:
    """A running broker and its name server, both as `host:port`."""

    names: str
    broker: str
    #: The broker's settings, under RocketMQ's names.
    settings: Mapping[str, str]
    manners: Manners
    #: Stops the broker and starts it again, on the same address and store.
    restart: Callable[[], None]
    #: Asks for the removal of the oldest files of the commit log.
    clean: Callable[[], None]

    def connect(self) -> RemotingClient:
        """A new connection to the broker."""
        return RemotingClient(self.broker)

    def ask_names(self, topic: str, **more: str) -> dict[str, Any] | None:
        """The route of a topic, None for an unknown one."""
        with RemotingClient(self.names) as client:
            answer = client.ask(105, {"topic": topic, **more})
        return None if answer.code == 17 else json.loads(answer.body)

    def delays_s(self) -> list[float]:
        """The delay of each level, from level 1 on, in seconds."""
        units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
        levels = self.settings["messageDelayLevel"].split()
        return [float(level[:-1]) * units[level[-1]] for level in levels]

    def create_topic(self, topic: str, queues: int = 1, perm: int = 6) -> None:
        """Makes a topic as an operator does, and waits until its route is known."""
        with self.connect() as client:
            fields = {
                "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues,
                "writeQueueNums": queues, "perm": perm, "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0, "order": "false",
            }  # fmt: skip
            answer = client.ask(17, fields)
            assert answer.code == 0, answer.remark
        eventually(lambda: self.ask_names(topic), f"the route of {topic}")

    def create_group(self, group: str) -> None:
        """Makes a consumer group as an operator does."""
        body = json.dumps({"groupName": group}).encode()
        with self.connect() as client:
            answer = client.ask(200, body=body)
            assert answer.code == 0, answer.remark


@dataclass(frozen=True)
class Servers:
    """The two servers that the checks need: one makes what is missing, and one does not."""

    #: Makes topics and groups when they are first used, and filters by SQL.
    open: Server
    #: Does neither. Its files are small, and old ones go when it is asked to clean.
    strict: Server


#: Settings of both servers. Delays are short, so that a run takes seconds.
COMMON = {
    "messageDelayLevel": "1s 1s 2s 3s 4s 5s 6s 7s 8s 9s 10s 11s 12s 13s 14s 15s 16s 17s",
    "maxMessageSize": str(4 << 20),
    "mappedFileSizeConsumeQueue": "20000",
    "diskMaxUsedSpaceRatio": "99",
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
    "transactionCheckMax": "3",
}
OPEN = {
    **COMMON,
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "enablePropertyFilter": "true",
    "mappedFileSizeCommitLog": str(16 << 20),
}
STRICT = {
    **COMMON,
    "autoCreateTopicEnable": "false",
    "autoCreateSubscriptionGroup": "false",
    "enablePropertyFilter": "false",
    "mappedFileSizeCommitLog": str(1 << 20),
    "maxMessageSize": str(1 << 18),
    "fileReservedTime": "0",
}
#: How long a lock of a queue lives (ms) here. RocketMQ's default is a minute.
LOCK_LIFE_MS = 6_000


# -- RocketMQ's broker


def _jvm(*more: str) -> Jvm:
    place = BUILD / BROKER
    return Jvm(f"{place}/classes:{place}/lib/*", (*JAVA[1:], *more))


@contextlib.contextmanager
def real_broker(folder: Path, names: str, settings: Mapping[str, str]) -> Iterator[RocketMQBroker]:
    """RocketMQ's broker, which is killed at the end, and its store removed."""
    folder.mkdir()
    lock_life = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={LOCK_LIFE_MS}"
    broker = RocketMQBroker(folder, _jvm(lock_life), names, settings)
    try:
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(folder / "store", ignore_errors=True)


@contextlib.contextmanager
def real_name_server(folder: Path) -> Iterator[str]:
    """RocketMQ's name server, which is killed at the end: its address."""
    folder.mkdir()
    server = RocketMQNameServer(folder, _jvm())

    def answers() -> bool:
        assert server.process.poll() is None, server.said()
        with contextlib.suppress(OSError), RemotingClient(server.address) as client:
            return client.ask(106).code == 0
        return False

    try:
        eventually(answers, "the name server answers", STARTS_WITHIN_S)
        yield server.address
    finally:
        server.kill()


#: What RocketMQ's broker needs besides, on a machine that is small and busy.
_PATIENT = {
    "timerWheelEnable": "true",
    "mappedFileSizeTimerLog": str(1 << 20),
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
    "cleanResourceInterval": "1000",
    # Until its op records are written RocketMQ asks about what was decided, and commits it twice.
    "transactionOpBatchInterval": "50",
}


@contextlib.contextmanager
def rocketmq_servers(folder: Path) -> Iterator[Servers]:
    """Two brokers of RocketMQ, each with a name server of ours."""
    require(BROKER)
    with contextlib.ExitStack() as stack:
        started = {}
        for kind, settings in (("open", OPEN), ("strict", STRICT)):
            place = folder / kind
            place.mkdir()
            names = stack.enter_context(name_server(place)).address
            patient = {**settings, **_PATIENT}
            broker = stack.enter_context(real_broker(place / "broker", names, patient))
            started[broker] = _as_server(names, broker)
        for broker, server in started.items():
            _wait_until_registered(server, broker)
        yield Servers(*started.values())


def _as_server(names: str, broker: RocketMQBroker) -> Server:
    def restart() -> None:
        broker.restart()
        _wait_until_registered(server, broker)

    def clean() -> None:
        with server.connect() as client:
            assert client.ask(329).code == 0

    manners = Manners(
        answers_in_kind=False,
        refuses_unwritable=False,
        refuses_bad_filters=False,
        serves_newer_filters=False,
    )
    settings = {**broker.settings, "lockMaxLiveTime": str(LOCK_LIFE_MS)}
    server = Server(names, broker.address, settings, manners, restart, clean)
    return server


def _wait_until_registered(server: Server, broker: RocketMQBroker) -> None:
    def answers() -> bool:
        assert broker.process.poll() is None, broker.said()
        with contextlib.suppress(OSError), server.connect() as client:
            return client.ask(30, {"topic": "SELF_TEST_TOPIC", "queueId": 0}).code == 0
        return False

    eventually(answers, "the broker answers", STARTS_WITHIN_S)
    eventually(lambda: server.ask_names("SELF_TEST_TOPIC"), "it registers", STARTS_WITHIN_S)


# -- ours

#: How RocketMQ's broker is told not to look at a disk that is rather full. Ours has it in SMALL.
_NOT_OURS = "diskMaxUsedSpaceRatio"
#: The settings that are the broker's; the others are the store's.
_BROKERS = (
    *("autoCreateTopicEnable", "autoCreateSubscriptionGroup", "enablePropertyFilter"),
    "lockMaxLiveTime",
)


@contextlib.contextmanager
def silomq_servers(folder: Path) -> Iterator[Servers]:
    """Two brokers of ours, each with its store, and each its own name server."""
    with contextlib.ExitStack() as stack:
        started = []
        for kind, shared in (("open", OPEN), ("strict", STRICT)):
            place = folder / kind
            place.mkdir()
            settings = {**shared, "lockMaxLiveTime": str(LOCK_LIFE_MS)}
            ours = {name: value for name, value in settings.items() if name not in _BROKERS}
            room = {"max_topics": 2048, "max_queues": 8192, "store_port": free_port()}
            base = {**SMALL, **_of_store(ours), **room}
            store = stack.enter_context(StoreProcess(place / "store", base=base))
            told = [f"{name}={settings[name]}" for name in _BROKERS]
            broker = stack.enter_context(BrokerProcess(store.path, *told))
            started.append(_ours(broker, settings))
        yield Servers(*started)


def _of_store(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings under the names that SMALL has them by."""
    names = {alias: name for name, kind in kinds().items() for alias in kind.rocketmq}
    return {names[name]: value for name, value in settings.items() if name != _NOT_OURS}


def _ours(broker: BrokerProcess, settings: Mapping[str, str]) -> Server:
    def restart() -> None:
        broker.kill()
        broker.start()

    def clean() -> None:
        with server.connect() as client:
            assert client.ask(329).code == 0

    manners = Manners(
        answers_in_kind=True,
        refuses_unwritable=True,
        refuses_bad_filters=True,
        serves_newer_filters=True,
    )
    server = Server(broker.address, broker.address, settings, manners, restart, clean)
    return server


#: Servers that the conformance run knows, by name.
KINDS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Servers]]] = {
    "rocketmq": rocketmq_servers,
    "silomq": silomq_servers,
}


def parameters(table: Mapping[str, object]) -> list[object]:
    """The kinds in a table as parameters of a fixture. RocketMQ's own broker shows that the checks
    are right: that takes minutes, so it is for the long form.
    """
    marks = {"rocketmq": LONG}
    return [pytest.param(kind, marks=marks.get(kind, ())) for kind in table]
