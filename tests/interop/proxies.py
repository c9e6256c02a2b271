"""RocketMQ's proxy before a broker, and the programs that run its gRPC clients: `proxy/` (Java),
`proxy_python/` and `proxy_node/`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import BUILD, JAVA, ROOT
from support.harness import eventually
from support.remoting_client import RemotingClient

from silomq.bench.broker.rocketmq import Jvm
from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PLACE = BUILD / "proxy"
_STARTS_WITHIN_S = 90.0
_RUNS_WITHIN_S = 130.0
#: What kind of messages the topic of a check takes, where they are not normal ones.
_KINDS = {
    "fifo": "FIFO",
    "delay": "DELAY",
    "recall": "DELAY",
    "transaction": "TRANSACTION",
    "forgotten": "TRANSACTION",
}
#: By client. Each has a topic and a group of its name. The programs say what they do.
CHECKS = {
    "java": ("simple", "filters", "invisible", "push", "refusals", *_KINDS),
    **{
        client: tuple(
            f"{client}-{name}"
            for name in ("simple", "invisible", "delay", "transaction", "forgotten")
        )
        for client in ("python", "node")
    },
}


def require_proxy() -> None:
    """Skips the test where `make interop` could not make it; in CI that is a failure."""
    _require(_PLACE, "JDK 17, Maven")


def require_client(client: str) -> None:
    """As `require_proxy`."""
    _require(_place_of(client), "pip" if client == "python" else "Node and npm")


def is_built(client: str) -> bool:
    return (_place_of(client) / ".stamp").is_file()


def _place_of(client: str) -> Path:
    """The Java client comes with the proxy."""
    return _PLACE if client == "java" else BUILD / f"proxy-{client}"


def _require(place: Path, tools: str) -> None:
    if (place / ".stamp").is_file():
        return
    why = f"There is no {place.name} in {place}: `make interop` fetches it ({tools})"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


class Proxy:
    """A proxy that takes gRPC requests at `address`."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self.address = address

    def _command(self, client: str) -> list[str]:
        here = ROOT / "tests" / "interop"
        if client == "python":
            return [sys.executable, "-P", str(here / "proxy_python" / "checks.py"), self.address]
        if client == "node":
            return ["node", str(here / "proxy_node" / "checks.js"), self.address]
        jvm = Jvm(f"{_PLACE}/classes:{_PLACE}/jars/client/*", JAVA[1:])
        return [*jvm.command(self._folder, "silomq.grpc.Checks", self.address)]

    def run(self, client: str, *checks: str) -> list[str]:
        """The lines that the checks print: whether each has passed, and what was refused."""
        command = [*self._command(client), *checks]
        environment = {
            **os.environ,
            "HOME": str(self._folder),  # clients keep their logs there
            "NODE_PATH": str(BUILD / "proxy-node" / "node_modules"),
            "PYTHONPATH": str(BUILD / "proxy-python"),
        }
        errors = self._folder / f"{client}.err"
        with errors.open("wb") as err:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err,
                cwd=self._folder, text=True, timeout=_RUNS_WITHIN_S, check=False, env=environment,
            )  # fmt: skip
        said = errors.read_text(errors="replace")
        print(done.stdout, said[-6000:])
        assert done.returncode == 0, said[-2000:]
        return done.stdout.splitlines()


@contextlib.contextmanager
def proxy(folder: Path, names: str, cluster: str, **more: object) -> Iterator[Proxy]:
    """A proxy for the brokers of a cluster, found by a name server, with further settings of its
    own. It is killed at the end.
    """
    folder.mkdir()
    port = free_port()
    file = folder / "rmq-proxy.json"
    settings = {
        "proxyMode": "CLUSTER",
        "namesrvAddr": names,
        "rocketMQClusterName": cluster,
        "localServeAddr": "127.0.0.1",
        "grpcServerPort": port,
        "remotingListenPort": free_port(),
        # So soon a broker knows whom it may ask about transactions.
        "transactionHeartbeatPeriodSecond": 1,
        **more,
    }
    file.write_text(json.dumps(settings))
    options = (*JAVA[1:], f"-Dcom.rocketmq.proxy.configPath={file}")
    main = "org.apache.rocketmq.proxy.ProxyStartup"
    command = Jvm(f"{_PLACE}/jars/server/*", options).command(folder, main)
    output = folder / "proxy.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder
        )

    def listens() -> bool:
        assert process.poll() is None, output.read_text(errors="replace")[-4000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        eventually(listens, "the proxy listens", _STARTS_WITHIN_S)
        yield Proxy(folder, f"127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def make_topics(broker: str, client: str) -> None:
    """Makes what a client's checks need, as an operator does."""
    with RemotingClient(broker) as operator:
        for check in CHECKS[client]:
            kind = _KINDS.get(check.removeprefix(f"{client}-"), "NORMAL")
            make_topic(operator, check, kind, check, f"{check}-sql")


def make_topic(operator: RemotingClient, topic: str, kind: str, *groups: str) -> None:
    """A topic for one kind of messages, and groups for it."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "2", "perm": "6",
        "writeQueueNums": "2", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0",
        "order": "false", "attributes": f"+message.type={kind}",
    }  # fmt: skip
    answer = operator.ask(17, fields)
    assert answer.code == 0, answer
    for group in groups:
        config = {
            "groupName": group, "consumeEnable": True, "retryMaxTimes": 16,
            "retryQueueNums": 1, "consumeMessageOrderly": kind == "FIFO",
        }  # fmt: skip
        answer = operator.ask(200, body=json.dumps(config).encode())
        assert answer.code == 0, answer
