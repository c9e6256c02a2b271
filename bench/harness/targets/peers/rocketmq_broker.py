"""A whole RocketMQ broker with its name server, and RocketMQ's own client in Java."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from .....broker.wire.codes import RequestCode
from ....broker.peer import answers, make_topic, wait_until
from ....broker.rocketmq import RELEASE, Jvm, RocketMQBroker, RocketMQNameServer
from ..processes import precise
from ..target import Durability, Facts
from .installed import class_path, missing, peers, rocketmq
from .java_host import HEAP, options
from .rocketmq import durability, store_settings
from .server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..target import Wanted

#: RocketMQ refuses a send that has waited for 0.2 s. What it does is to be measured, not what it
#: refuses.
_PATIENT = {
    "waitTimeMillsInSendQueue": "30000",
    "waitTimeMillsInPullQueue": "30000",
    "osPageCacheBusyTimeOutMills": "10000",
}

_SAID = {
    Durability.PROCESS_MEMORY: "The broker has it in its direct memory (transientStorePool).",
    Durability.DISK: "The broker has flushed the commit log's file to the disk (SYNC_FLUSH).",
    Durability.SYSTEM_MEMORY: "The broker has it in its mapped log, not flushed (ASYNC_FLUSH).",
}


def facts(wanted: Wanted) -> Facts:
    """What the status SEND_OK means, by the broker's flush mode."""
    said = _SAID[durability(wanted)]
    return Facts(
        title="RocketMQ's broker, by its Java client",
        version=RELEASE,
        acknowledged=said,
        durability=durability(wanted),
        send_calls=frozenset({"oneway", "send", "async", "batch"}),
        read_calls=frozenset({"poll", "listen"}),
    )


class Broker:
    """`Wanted.settings` are those of the broker's file of settings."""

    name = "rocketmq-broker"

    def missing(self) -> str:
        return missing(
            "RocketMQ's broker", peers("java5", "classes"), rocketmq(RELEASE),
            peers("histogram", "lib"), program="java",
        )  # fmt: skip

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[Server]:
        folder = folder.absolute()  # the servers run there
        settings = {
            **store_settings(wanted),
            **_PATIENT,
            **wanted.settings,
        }
        jars = class_path(rocketmq(RELEASE))
        pool = 6 * wanted.file_size if wanted.pool else 1 << 30
        java = (*HEAP, f"-XX:MaxDirectMemorySize={pool}", "-XX:-UsePerfData")
        jvm = Jvm(jars, java, is_leashed=True)
        with contextlib.ExitStack() as ends:
            names = RocketMQNameServer(folder, jvm)
            ends.callback(names.kill)
            code = RequestCode.GET_BROKER_CLUSTER_INFO
            wait_until(lambda: answers(names.address, code), "the name server answers")
            broker = RocketMQBroker(folder, jvm, names.address, settings)
            ends.callback(broker.kill)
            ask = {"topic": "TBW102", "queueId": 0}
            wait_until(
                lambda: answers(broker.address, RequestCode.GET_MAX_OFFSET, ask),
                "the broker answers",
            )
            for topic in wanted.topics:
                make_topic(names.address, broker.address, topic, wanted.queues)
            pids = {"names": names.process.pid, "broker": broker.process.pid}
            yield Server(facts(wanted), {"names": names.address}, _worker(folder), pids)


def _worker(folder: Path) -> list[str]:
    parts = peers("java5", "classes"), rocketmq(RELEASE), peers("histogram", "lib")
    jvm = ["java", "-Xmx512m", *options(folder), "-cp", class_path(*parts)]
    return precise([*jvm, "silomq.peers.RocketMQClient", RELEASE])
