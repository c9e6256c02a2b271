"""A name server of its own process, and a peer that talks to it over a socket."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
from typing import TYPE_CHECKING

import msgspec
from support.commands import SILO
from support.harness import WAIT_S, eventually
from support.warm import WarmProcess

from silomq.broker.wire.command import Command, decode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_RUNNING = re.compile(r'"name server running", "address": "([^"]+)"')
#: What a broker must send with each registration.
BROKER = {
    "brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "clusterName": "DefaultCluster",
    "haServerAddr": "127.0.0.1:10912", "brokerId": "0", "enableActingMaster": "false",
}  # fmt: skip


class Peer:
    """A connection to a name server."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=WAIT_S)
        self._opaque = 0

    def tell(self, command: Command) -> None:
        self.socket.sendall(command.encode())

    def hear(self) -> Command:
        """The next answer."""
        return decode(self._read(int.from_bytes(self._read(4), "big")))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the connection ended"
            data += part
        return data

    def ask(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = 479,
    ) -> Command:
        """The answer to a request."""
        self._opaque += 1
        self.tell(Command(code, dict(fields or {}), body, self._opaque, version=version))
        answer = self.hear()
        assert (answer.opaque, answer.flag & 1) == (self._opaque, 1)
        return answer

    def close(self) -> None:
        self.socket.close()


class NameServerProcess:
    """`silo names` with further arguments, on a free port."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "names.log"
        with self.log.open("wb") as out:
            self.process = WarmProcess(
                [*SILO, "names", "--listen", "127.0.0.1:0", *arguments], stderr=out
            )
        eventually(lambda: _RUNNING.search(self.log.read_text()), "the name server runs")
        found = _RUNNING.search(self.log.read_text())
        assert found is not None
        self.address = found[1]

    @contextlib.contextmanager
    def peer(self) -> Iterator[Peer]:
        peer = Peer(self.address)
        try:
            yield peer
        finally:
            peer.close()

    def stop(self) -> None:
        """Ends it by SIGTERM, which must be clean."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT_S) == 0
        assert "name server stopped" in self.log.read_text()


@contextlib.contextmanager
def name_server(folder: Path, *arguments: str) -> Iterator[NameServerProcess]:
    """A name server that stops at the end."""
    server = NameServerProcess(folder, *arguments)
    try:
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def registration(*topics: str, counter: int = 1) -> bytes:
    """The body of a broker's registration with these topics."""
    configs = {
        name: {"perm": 6, "readQueueNums": 4, "topicName": name, "writeQueueNums": 4}
        for name in topics
    }
    version = {"counter": counter, "stateVersion": 0, "timestamp": 1}
    wrapper = {"dataVersion": version, "topicConfigTable": configs}
    return msgspec.json.encode({"topicConfigSerializeWrapper": wrapper})
