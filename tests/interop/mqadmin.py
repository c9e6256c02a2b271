"""RocketMQ's mqadmin in a process that runs many commands, and servers to run it against."""

from __future__ import annotations

import base64
import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interop.rocketmq import BUILD, JAVA, require
from interop.servers import BROKER, real_broker, real_name_server
from support.brokers import BrokerProcess
from support.harness import WAIT_S, StoreProcess, eventually
from support.name_servers import name_server
from support.remoting_client import RemotingClient

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Settings of both brokers.
_SHARED = {
    "mappedFileSizeCommitLog": str(4 << 20),
    "maxMessageSize": str(1 << 18),
    "mappedFileSizeConsumeQueue": "20000",
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
}
#: Where mqadmin writes the body of a message that it has found: no option names another folder.
_BODIES = Path("/tmp/rocketmq/msgbodys")


@dataclass(frozen=True)
class Server:
    """A name server and the broker that registers with it, each as HOST:PORT."""

    names: str
    broker: str


class MqAdmin:
    """The process; `Admin.java` says what it can be told besides mqadmin's commands."""

    def __init__(self, folder: Path, server: Server) -> None:
        place = BUILD / BROKER
        self._errors = folder / "mqadmin.err"
        self._bodies = set(_BODIES.glob("*"))
        with self._errors.open("wb") as err:
            self._process = subprocess.Popen(
                [
                    *JAVA, f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}",
                    f"-Drocketmq.client.localOffsetStoreDir={folder}/offsets",
                    f"-Drocketmq.home.dir={folder}",  # it signs by conf/tools.yml, if that is there
                    "-cp", f"{place}/classes:{place}/lib/*", "silomq.interop.Admin", server.names,
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, cwd=folder,
            )  # fmt: skip

    def run(self, *words: str) -> str:
        """What a command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"mqadmin ended in {words}: {self._errors.read_text(errors='replace')[-2000:]}"
        return base64.b64decode(line).decode(errors="replace")

    def stop(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(WAIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            for path in set(_BODIES.glob("*")) - self._bodies:
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # others have files there
                _BODIES.rmdir()
                _BODIES.parent.rmdir()


@contextlib.contextmanager
def mqadmin(folder: Path, server: Server) -> Iterator[MqAdmin]:
    """The process for a server, which ends at the end."""
    found = MqAdmin(folder, server)
    try:
        yield found
    finally:
        found.stop()


def _await_registration(names: str) -> None:
    def registered() -> bool:
        with contextlib.suppress(OSError), RemotingClient(names) as client:
            return client.ask(105, {"topic": "TBW102"}).code == 0
        return False

    eventually(registered, "the broker registers", 90)


@contextlib.contextmanager
def rocketmq(folder: Path) -> Iterator[Server]:
    """RocketMQ's name server and broker."""
    require(BROKER)
    folder.mkdir(parents=True)
    # Without the timer wheel RocketMQ's broker cannot delete a topic.
    settings = {
        **_SHARED, "timerWheelEnable": "true", "mappedFileSizeTimerLog": str(1 << 20),
        "diskMaxUsedSpaceRatio": "99",
    }  # fmt: skip
    with (
        real_name_server(folder / "names") as names,
        real_broker(folder / "broker", names, settings) as broker,
    ):
        _await_registration(names)
        yield Server(names, broker.address)


@contextlib.contextmanager
def silomq(folder: Path) -> Iterator[Server]:
    """`silo names` and `silo broker`."""
    require(BROKER)
    folder.mkdir(parents=True)
    store = StoreProcess(
        folder / "store",
        store_port=free_port(),
        mapped_file_size_commit_log=4 << 20,
        max_message_size=1 << 18,
        mapped_file_size_consume_queue=20_000,
    )
    with (
        name_server(folder) as names,
        store,
        BrokerProcess(store.path, f"namesrvAddr={names.address}") as broker,
    ):
        _await_registration(names.address)
        yield Server(names.address, broker.address)
