"""RocketMQ's own broker and name server, from its published jars, as processes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..leash import leashed
from ..loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The only release of which a broker is published as a jar with what it needs.
RELEASE = "5.3.3"


class Jvm(NamedTuple):
    """How Java programs are run: `jars` is a class path, `options` are Java's."""

    jars: str
    options: Sequence[str] = ()
    #: Whether a server ends when the process that started it is killed. Not for servers that a
    #: thread starts which ends before them.
    is_leashed: bool = False

    def command(self, folder: Path, main: str, *words: str) -> list[str]:
        """The command of a program that writes its files and logs below `folder`."""
        own = (f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}")
        return ["java", *self.options, *own, "-cp", self.jars, main, *words]


class JavaServer:
    """A server of RocketMQ's: the class `main` with a file of `settings`, in `folder`."""

    def __init__(self, folder: Path, jvm: Jvm, main: str, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self._is_leashed = jvm.is_leashed
        self._name = main.rpartition(".")[2]
        self._log = folder / f"{self._name}.log"
        file = folder / f"{self._name}.conf"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        home = Jvm(jvm.jars, (*jvm.options, f"-Drocketmq.home.dir={folder}"))
        command = home.command(folder, main, "-c", str(file))
        self._command = leashed(command) if jvm.is_leashed else command
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=self._is_leashed,
            )  # fmt: skip

    def said(self) -> str:
        """The end of what it wrote to its standard streams."""
        return self._log.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        """Kills it. RocketMQ's servers take many seconds to end in order."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Kills it and starts it again."""
        self.kill()
        self.process = self._start()


class RocketMQBroker(JavaServer):
    """RocketMQ's broker, with its store below `folder`. `more` are further settings."""

    def __init__(self, folder: Path, jvm: Jvm, names: str, more: Mapping[str, str]) -> None:
        self.settings = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(free_port()),
            "haListenPort": str(free_port()),
            "namesrvAddr": names,
            "storePathRootDir": str(folder / "store"),
            **more,
        }
        self.address = f"127.0.0.1:{self.settings['listenPort']}"
        super().__init__(folder, jvm, "org.apache.rocketmq.broker.BrokerStartup", self.settings)


class RocketMQNameServer(JavaServer):
    """RocketMQ's name server."""

    def __init__(self, folder: Path, jvm: Jvm) -> None:
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        settings = {"listenPort": str(port), "kvConfigPath": f"{folder}/kv.json"}
        super().__init__(folder, jvm, "org.apache.rocketmq.namesrv.NamesrvStartup", settings)
