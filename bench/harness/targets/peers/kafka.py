"""Kafka: one node (KRaft) as a JVM, by confluent-kafka."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

from ....loopback import free_port, listens
from ..processes import ServerFailed, precise, running
from ..target import Durability, Facts
from .installed import class_path, missing, peers
from .java_host import HEAP, options
from .server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..target import Wanted

RELEASE = "4.4.0"
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
_FORMAT_S = 60
#: Characters of what Kafka says of its settings.
_SHOWN = 2000


def facts(wanted: Wanted) -> Facts:
    """What an answer means with acks=all and one replica: `flush.messages` in Kafka's documents."""
    sync = wanted.flush == "sync"
    return Facts(
        title="Kafka, by confluent-kafka",
        version=RELEASE,
        acknowledged="The log's file was synced before the answer (acks=all, flush.messages=1)."
        if sync
        else "The log's file was written before the answer, not synced (acks=all).",
        durability=Durability.DISK if sync else Durability.SYSTEM_MEMORY,
        send_calls=frozenset({"oneway", "send", "async", "batch"}),
        read_calls=frozenset({"poll"}),
    )


def _settings(folder: Path, wanted: Wanted, port: int, controller: int) -> dict[str, str]:
    listeners = {"PLAINTEXT": port, "CONTROLLER": controller}
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://127.0.0.1:{at}" for name, at in listeners.items()),
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder / "logs"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "num.partitions": str(wanted.queues),
        "message.max.bytes": str(8 << 20),
    }
    if wanted.flush == "sync":
        settings["log.flush.interval.messages"] = "1"
    return {**settings, **wanted.settings}


class Kafka:
    """`Wanted.settings` are those of the broker. A queue is a partition."""

    name = "kafka"

    def missing(self) -> str:
        return missing("Kafka", peers("kafka", "lib"), modules=("confluent_kafka",), program="java")

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[Server]:
        from .kafka_client import make_topics

        port, controller = free_port(), free_port()
        file = folder / "kafka.properties"
        settings = _settings(folder, wanted, port, controller)
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        java = ["java", *HEAP, *options(folder), "-cp", class_path(peers("kafka", "lib"))]
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(file)]
        try:
            done = subprocess.run(
                [*java, *tool], check=False, timeout=_FORMAT_S, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            why = f"Kafka's StorageTool has not made its folder within {_FORMAT_S} s: try again"
            raise ServerFailed(f"{why} on a machine that does nothing else") from None
        if done.returncode:
            said = (done.stdout + done.stderr)[-_SHOWN:].strip()
            raise ServerFailed(f"Kafka refuses its settings; its last words: {said}")
        command = precise([*java, "kafka.Kafka", str(file)])
        with running("Kafka", command, folder / "server.log") as server:
            server.wait_for(lambda: listens(port))
            make_topics(port, wanted.topics, wanted.queues)
            worker = [sys.executable, "-P", "-m", f"{__name__}_client"]
            pids = {"kafka": server.process.pid}
            yield Server(facts(wanted), {"port": str(port)}, worker, pids)
