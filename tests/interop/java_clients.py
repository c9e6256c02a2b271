"""One release of RocketMQ's clients in a process of its own, which runs the checks in `java/`."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

from interop.rocketmq import BUILD, JAVA
from support.harness import WAIT_S, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interop.servers import Servers

#: How long a part of the run may take, seconds.
PATIENCE_S = 150.0


class JavaClients:
    """The run of one release; `Conformance.java` says what it can be told."""

    def __init__(self, release: str, folder: Path, servers: Servers) -> None:
        self.release = release
        self._lines = folder / "checks.txt"
        self._errors = folder / "checks.err"
        place = BUILD / release
        lock_life_ms = int(servers.open.settings["lockMaxLiveTime"])
        words = {
            "release": release,
            "names": servers.open.names,
            "strict": servers.strict.names,
            "broker": servers.open.broker,
            "delays": ",".join(f"{seconds * 1000:.0f}" for seconds in servers.open.delays_s()),
            "maxMessageSize": servers.open.settings["maxMessageSize"],
            "lockLife": lock_life_ms,
        }
        with self._lines.open("wb") as out, self._errors.open("wb") as err:
            self._process = subprocess.Popen(
                [
                    *JAVA, f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}",
                    f"-Drocketmq.client.localOffsetStoreDir={folder}/offsets",
                    # A lock that lives for a shorter time has to be renewed more often.
                    f"-Drocketmq.client.rebalance.lockInterval={lock_life_ms // 3}",
                    "-cp", f"{place}/classes:{place}/lib/*", "silomq.conformance.Conformance",
                    *(f"{name}={value}" for name, value in words.items()),
                ],
                stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=folder,
            )  # fmt: skip

    def name(self, what: str) -> str:
        """A topic or a group as the checks call it."""
        return f"{what}-{self.release.replace('.', '-')}"

    def tell(self, line: str) -> None:
        """What to do next."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def wait_for(self, line: str) -> None:
        """Waits until it prints the line."""
        eventually(lambda: line in self._printed() or self._ended(), line, PATIENCE_S)
        assert line in self._printed(), self._errors.read_text(errors="replace")[-4000:]

    def results(self, *words: str) -> list[str]:
        """The lines of the checks that are done, those with one of the words only."""
        done = [line for line in self._printed() if line[0].isdigit()]
        return [line for line in done if not words or set(words) & set(line.split())]

    def _printed(self) -> list[str]:
        return self._lines.read_text().splitlines()

    def _ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(WAIT_S)
        finally:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def java_clients(release: str, folder: Path, servers: Servers) -> Iterator[JavaClients]:
    """The run of one release, which ends at the end."""
    folder.mkdir()
    clients = JavaClients(release, folder, servers)
    try:
        yield clients
    finally:
        clients.stop()
