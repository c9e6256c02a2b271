"""RocketMQ's proxy before a broker, and the program in `proxy/`, which runs its gRPC clients."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import BUILD, JAVA
from support.harness import eventually
from support.name_servers import Peer

from silomq.bench.broker.rocketmq import Jvm, free_port

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
#: Each has a topic and a group of its name. Checks.java says what they do.
CHECKS = ("simple", "filters", "invisible", "push", "refusals", *_KINDS)


def require_proxy() -> None:
    """Skips the test where `make interop` could not make it; in CI that is a failure."""
    if (_PLACE / ".stamp").is_file():
        return
    why = f"RocketMQ's proxy is not in {_PLACE}: `make interop` fetches it (JDK 17, Maven)"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


class Proxy:
    """A proxy that takes gRPC requests at `address`."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self.address = address

    def run(self, *checks: str) -> list[str]:
        """The lines that the checks print: whether each has passed, and what was refused."""
        command = Jvm(f"{_PLACE}/classes:{_PLACE}/jars/client/*", JAVA[1:]).command(
            self._folder, "silomq.grpc.Checks", self.address, *checks
        )
        errors = self._folder / "checks.err"
        with errors.open("wb") as err:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err,
                cwd=self._folder, text=True, timeout=_RUNS_WITHIN_S, check=False,
            )  # fmt: skip
        said = errors.read_text(errors="replace")
        print(done.stdout, said[-6000:])
        assert done.returncode == 0, said[-2000:]
        return done.stdout.splitlines()


@contextlib.contextmanager
def proxy(folder: Path, names: str, cluster: str) -> Iterator[Proxy]:
    """A proxy for the brokers of a cluster, found by a name server. It is killed at the end."""
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


def make_topics(broker: str) -> None:
    """Makes what the checks need, as an operator does."""
    with contextlib.closing(Peer(broker)) as peer:
        for check in CHECKS:
            fields = {
                "topic": check, "defaultTopic": "TBW102", "readQueueNums": "2", "perm": "6",
                "writeQueueNums": "2", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0",
                "order": "false", "attributes": f"+message.type={_KINDS.get(check, 'NORMAL')}",
            }  # fmt: skip
            answer = peer.ask(17, fields)
            assert answer.code == 0, answer
            for group in (check, f"{check}-sql"):
                config = {
                    "groupName": group, "consumeEnable": True, "retryMaxTimes": 16,
                    "retryQueueNums": 1, "consumeMessageOrderly": check == "fifo",
                }  # fmt: skip
                answer = peer.ask(200, body=json.dumps(config).encode())
                assert answer.code == 0, answer
