"""RocketMQ's broker in the middle of transactions: it works on a store that had been ours, with a
producer of its own that answers its checks.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, Any

from interop.rocketmq import BUILD, JAVA, NAMES
from interop.servers import BROKER, STARTS_WITHIN_S
from support.harness import eventually
from support.name_servers import name_server
from support.remoting_client import RemotingClient
from support.small_settings import SMALL
from support.transaction_load import QUICK

from silomq.bench.broker.rocketmq import Jvm, RocketMQBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC, GROUP = "t", "pg"
SETTINGS: dict[str, Any] = {
    **SMALL,
    **QUICK,
    "mapped_file_size_commit_log": 4 << 20,
    "mapped_file_size_consume_queue": 40960,
    "store_host": "127.0.0.1",
}
#: RocketMQ asks soon, and writes its op records at once: otherwise it commits twice itself.
RAPID = {
    "transactionTimeOut": "1500",
    "transactionCheckInterval": "1500",
    "transactionOpBatchInterval": "50",
    "timerWheelEnable": "false",
    "diskMaxUsedSpaceRatio": "99",
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
}
PATIENCE_S = 60.0
_MADE = {
    "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
}  # fmt: skip


class JavaProducer:
    """RocketMQ's TransactionMQProducer; `TransactionClient.java` says what it does."""

    def __init__(self, folder: Path, names: str, release: str) -> None:
        place = BUILD / release
        self._out = folder / "client.txt"
        with self._out.open("wb") as out, (folder / "client.err").open("wb") as err:
            self._process = subprocess.Popen(
                [
                    *JAVA, f"-Duser.home={folder}", "-cp", f"{place}/classes:{place}/lib/*",
                    "silomq.interop.TransactionClient", names, GROUP, TOPIC,
                ],
                stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=folder,
            )  # fmt: skip

    def begin(self, *bodies: str) -> None:
        assert self._process.stdin is not None
        for body in bodies:
            self._process.stdin.write(f"{body}\n".encode())
            self._process.stdin.flush()
            self.said(f"sent {body}")

    def times(self, line: str) -> int:
        return self._out.read_text().splitlines().count(line)

    def asked(self) -> set[str]:
        """What it was asked about so far."""
        lines = self._out.read_text().splitlines()
        return {line.removeprefix("asked ") for line in lines if line.startswith("asked ")}

    def said(self, line: str) -> None:
        eventually(lambda: self.times(line), line, PATIENCE_S)

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def rocketmq(
    folder: Path, release: str = BROKER, client_release: str = BROKER, *, make: bool = False
) -> Iterator[JavaProducer]:
    """RocketMQ's broker on the store in `folder`, with a producer of the group. Both are killed.
    The broker is told to `make` the topic if its store is new.
    """
    sizes = {NAMES[name]: str(SETTINGS[name]) for name in NAMES if name in SETTINGS}
    (folder / "names").mkdir(exist_ok=True)
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "logback_broker.xml").write_text("<configuration/>")  # RocketMQ 4 reads it
    with name_server(folder / "names") as names:
        jvm = Jvm(f"{BUILD / release}/lib/*", JAVA[1:])
        broker = RocketMQBroker(folder, jvm, names.address, {**sizes, **RAPID})
        client = None
        try:

            def answers() -> bool:
                assert broker.process.poll() is None, broker.said()
                with contextlib.suppress(OSError), RemotingClient(broker.address) as asked:
                    return asked.ask(30, {"topic": TOPIC, "queueId": 0}).code == 0
                return False

            eventually(answers, "the broker answers", STARTS_WITHIN_S)
            if make:
                with RemotingClient(broker.address) as operator:
                    assert operator.ask(17, _MADE).code == 0
            with RemotingClient(names.address) as asked:
                eventually(
                    lambda: asked.ask(105, {"topic": TOPIC}).code == 0, "it registers", PATIENCE_S
                )
            client = JavaProducer(folder, names.address, client_release)
            yield client
        finally:
            if client is not None:
                client.end()
            broker.kill()
