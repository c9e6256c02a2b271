"""Brokers that speak RocketMQ's protocol: `silo broker` before a store, or any that runs."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import TYPE_CHECKING, Final

from .... import __version__
from ....broker.wire.codes import RequestCode, ResponseCode
from ...broker.peer import Peer, answers, make_topic
from ...loopback import free_port
from .processes import ServerFailed, running
from .silomq import SEND_CALLS, RunningStore, acknowledged, store
from .target import Durability, Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .processes import ServerProcess
    from .target import Wanted

_READ_CALLS: Final = frozenset({"poll"})
#: The address of a master in the table of a cluster, whose keys are no JSON.
_MASTER: Final = re.compile(r'"?0"?\s*:\s*"([^"]+)"')


def _worker() -> list[str]:
    return [sys.executable, "-P", "-m", f"{__package__}.remoting_client"]


class RunningSiloBroker:
    """A broker and its store."""

    def __init__(
        self, address: str, wanted: Wanted, stored: RunningStore, broker: ServerProcess
    ) -> None:
        self._address, self._wanted, self._stored, self._broker = address, wanted, stored, broker

    @property
    def facts(self) -> Facts:
        said, durability = acknowledged(self._wanted)
        title = "SiloMQ, by RocketMQ's protocol"
        return Facts(title, __version__, said, durability, SEND_CALLS, _READ_CALLS)

    @property
    def endpoint(self) -> dict[str, str]:
        return {"broker": self._address, "begins": "{}"}

    def pids(self) -> dict[str, int]:
        self._broker.check()
        return {**self._stored.pids(), "broker": self._broker.process.pid}

    def worker(self) -> list[str]:
        return _worker()

    def positions(self) -> dict[str, int]:
        return self._stored.positions()

    def restart(self, between: Callable[[], None]) -> bool:
        """The broker before the store would lose its sessions."""
        return False


class SiloBroker:
    """The target "silomq-broker"."""

    name = "silomq-broker"

    def missing(self) -> str:
        return ""

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[RunningSiloBroker]:
        port = free_port()
        extra = {"store_host": "127.0.0.1", "store_port": str(port)}
        address = f"127.0.0.1:{port}"
        with store(folder, wanted, extra) as stored:
            command = [sys.executable, "-P", "-m", "silomq.cli.main", "broker"]
            command += ["--store", stored.endpoint["store"]]
            with running("the broker", command, folder / "broker.log") as broker:
                fields = {"topic": wanted.topics[0], "queueId": 0}
                code = RequestCode.GET_MAX_OFFSET
                broker.wait_for(lambda: answers(address, code, fields))
                yield RunningSiloBroker(address, wanted, stored, broker)


class RunningElsewhere:
    """A broker that somebody else runs: its processes are not known."""

    def __init__(self, address: str, broker: str, begins: dict[str, int]) -> None:
        self._address, self._broker, self._begins = address, broker, begins

    @property
    def facts(self) -> Facts:
        said = "what the settings of this broker say, which are not known here"
        title = f"a broker at {self._address}"
        return Facts(title, "", said, Durability.PROCESS_MEMORY, SEND_CALLS, _READ_CALLS)

    @property
    def endpoint(self) -> dict[str, str]:
        return {"broker": self._broker, "begins": json.dumps(self._begins)}

    def pids(self) -> dict[str, int]:
        return {}

    def worker(self) -> list[str]:
        return _worker()

    def positions(self) -> dict[str, int]:
        return {}

    def restart(self, between: Callable[[], None]) -> bool:
        """It is somebody else's."""
        return False


class Remoting:
    """The target "remoting": the broker or the name server at `address`, HOST:PORT. Its topics are
    made if they are missing, and stay. Groups begin behind what the topics have already.
    """

    name = "remoting"

    def __init__(self, address: str) -> None:
        self._address = address

    def missing(self) -> str:
        return "" if self._address else "give its address, as --set address=127.0.0.1:9876"

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[RunningElsewhere]:
        try:
            broker = _broker_of(self._address)
            for topic in wanted.topics:
                make_topic(self._address, broker, topic, wanted.queues)
            begins = _ends(broker, wanted)
        except (OSError, RuntimeError, ValueError) as error:
            raise ServerFailed(f"the broker at {self._address}: {error}") from error
        yield RunningElsewhere(self._address, broker, begins)


def _broker_of(address: str) -> str:
    """The first master that a name server knows; the address itself if it is a broker's."""
    with Peer(address) as peer:
        answer = peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    if answer.code != ResponseCode.SUCCESS:
        return address
    master = _MASTER.search(answer.body.decode(errors="replace"))
    if master is None:
        raise RuntimeError("this name server knows no broker")
    return master[1]


def _ends(broker: str, wanted: Wanted) -> dict[str, int]:
    """TOPIC:QUEUE -> how many messages it has had."""
    found = {}
    with Peer(broker) as peer:
        for topic in wanted.topics:
            for queue in range(wanted.queues):
                fields = {"topic": topic, "queueId": queue}
                answer = peer.ask(RequestCode.GET_MAX_OFFSET, fields)
                found[f"{topic}:{queue}"] = int(answer.fields["offset"])
    return found
