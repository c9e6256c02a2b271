"""The two servers that are measured, each with the settings that it is shipped with."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...broker.wire.codes import RequestCode
from ..loopback import free_port
from .peer import answers, make_topic, wait_until
from .processes import cpu_seconds, own_bytes, tree
from .rocketmq import Jvm, RocketMQBroker, RocketMQNameServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_ASYNC = {"flushDiskType": "ASYNC_FLUSH"}
#: RocketMQ refuses a send that has waited for 0.2 s, and a pull after 5 s. What it does is to be
#: measured, not what it refuses.
_PATIENT = {
    "waitTimeMillsInSendQueue": "30000",
    "waitTimeMillsInPullQueue": "30000",
    "osPageCacheBusyTimeOutMills": "10000",
}
_SILO = (sys.executable, "-P", "-m", "silomq.cli.main")
QUEUES = 8
#: Characters of a server's log that are shown with an error.
_NOTED = 2000
_END_S = 60.0


@dataclass(frozen=True)
class Server:
    """A running broker. `names` and `broker` are HOST:PORT of what clients take as their name
    server, and of the broker; `answered_s` is how long it took from its start to its first answer.
    """

    kind: str
    names: str
    broker: str
    pids: tuple[int, ...]
    answered_s: float

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far."""
        return cpu_seconds(tree(self.pids))

    def own_bytes(self) -> int:
        """Memory of all its processes, without mapped files."""
        return own_bytes(tree(self.pids))

    def make_topic(self, topic: str) -> str:
        """Makes a topic of QUEUES queues."""
        make_topic(self.names, self.broker, topic, QUEUES)
        return topic


@dataclass(frozen=True)
class Place:
    """Where servers are started: their stores are put into `folder`, and removed. `jvm` has
    RocketMQ's class path; a commit-log file has `file_size` bytes.
    """

    folder: Path
    jvm: Jvm
    file_size: int


@contextlib.contextmanager
def _new_folder(place: Place) -> Iterator[Path]:
    """A folder that is removed at the end. An error gets the ends of the logs in it as notes."""
    folder = Path(tempfile.mkdtemp(prefix="server-", dir=place.folder))
    try:
        yield folder
    except Exception as error:
        for log in sorted(folder.glob("*.log")):
            error.add_note(f"--- {log.name}\n{log.read_text(errors='replace')[-_NOTED:]}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await_answer(address: str) -> None:
    wait_until(
        lambda: answers(address, RequestCode.GET_MAX_OFFSET, {"topic": "TBW102", "queueId": 0}),
        f"the broker at {address} answers",
    )


@contextlib.contextmanager
def rocketmq(place: Place) -> Iterator[Server]:
    """RocketMQ's broker and name server, killed at the end."""
    settings = {**_ASYNC, **_PATIENT, "mappedFileSizeCommitLog": str(place.file_size)}
    with _new_folder(place) as folder, contextlib.ExitStack() as ends:
        start = time.perf_counter()
        names = RocketMQNameServer(folder, place.jvm)
        ends.callback(names.kill)
        code = RequestCode.GET_BROKER_CLUSTER_INFO
        wait_until(lambda: answers(names.address, code), "the name server answers")
        broker = RocketMQBroker(folder, place.jvm, names.address, settings)
        ends.callback(broker.kill)
        _await_answer(broker.address)
        took = time.perf_counter() - start
        pids = names.process.pid, broker.process.pid
        yield Server("rocketmq", names.address, broker.address, pids, took)


@contextlib.contextmanager
def silomq(place: Place) -> Iterator[Server]:
    """`silo serve` and `silo broker`, ended in order at the end."""
    port = free_port()
    with _new_folder(place) as folder, contextlib.ExitStack() as ends:
        store = folder / "store"
        settings = {
            **_ASYNC,
            "mappedFileSizeCommitLog": str(place.file_size),
            "store_host": "127.0.0.1",
            "store_port": str(port),
        }
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        start = time.perf_counter()
        processes = [
            ends.enter_context(_running(folder, [*_SILO, "serve", "--store", str(store), *words])),
            ends.enter_context(_running(folder, [*_SILO, "broker", "--store", str(store)])),
        ]
        address = f"127.0.0.1:{port}"
        _await_answer(address)
        took = time.perf_counter() - start
        yield Server("silomq", address, address, tuple(p.pid for p in processes), took)


@contextlib.contextmanager
def _running(folder: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended by SIGTERM."""
    with (folder / "silo.log").open("ab") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"{' '.join(command)} has ended with {process.returncode}")
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        finally:
            process.kill()
            process.wait()


#: In this order: RocketMQ's figures of a round come first.
SERVERS: dict[str, Callable[[Place], AbstractContextManager[Server]]] = {
    "rocketmq": rocketmq,
    "silomq": silomq,
}
