"""`silo query trace` on messages that RocketMQ's clients have traced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from interop.clients import JAVA_CLIENTS, Clients
from support.brokers import BrokerProcess
from support.commands import silo
from support.harness import StoreProcess, eventually
from support.remoting_client import RemotingClient

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)
PATIENCE_S = 60.0
#: What is said of a group's retry topic when it is made.
_MADE = {
    "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
    "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
}  # fmt: skip


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("server")
    delays = "1s 1s 1s 1s"
    with (
        StoreProcess(folder / "store", store_port=free_port(), message_delay_level=delays) as store,
        BrokerProcess(store.path) as running,
    ):
        yield running


@pytest.mark.parametrize("client", JAVA_CLIENTS)
def test_a_message_that_is_consumed_twice(
    broker: BrokerProcess, client: str, tmp_path: Path
) -> None:
    topic = client.replace(".", "-")
    group = f"readers-{topic}"
    with RemotingClient(broker.address) as operator:
        # A client that does not find it at its start looks again after 30 s.
        answer = operator.ask(17, {**_MADE, "topic": f"%RETRY%{group}"})
        assert answer.code == 0, answer
    clients = Clients(broker.address, tmp_path)
    message = {"body": "traced", "keys": ["k"], "tags": "a"}
    request = {"do": "send", "group": "senders", "topics": [topic], "messages": [message]}
    with (
        clients.start(client, {**request, "traced": True}) as sender,
        clients.consumer(client, group, topic, refuse=1, traced=True) as consumer,
    ):
        (sent,) = sender.wait_for("sent")
        consumer.wait_for("received", 2)
        where = ("--topic", topic, "--json")

        def trace() -> dict[str, Any]:
            done = silo("query", "trace", sent["id"], *where, store=broker.store)
            found: dict[str, Any] = json.loads(done.stdout)
            return found

        eventually(lambda: len(trace()["traces"]) == 5, "all traces have come", PATIENCE_S)
    found = trace()
    assert found["bad_records"] == 0
    published, *consumed = found["traces"]
    assert (published["kind"], published["group"]) == ("published", "senders")
    assert (published["topic"], published["succeeded"]) == (topic, True)
    assert [(one["kind"], one["group"]) for one in consumed] == [
        (kind, group) for _ in range(2) for kind in ("consuming", "consumed")
    ]
    assert [one["retries"] for one in consumed] == [0, 0, 1, 1]
    assert [one["succeeded"] for one in consumed if one["kind"] == "consumed"] == [False, True]
    first, waiting, retry = found["copies"]
    assert (first["what"], first["topic"]) == ("stored", topic)
    assert first["offset_message_id"] == published["offset_message_id"]
    assert waiting["what"] == f"delayed by level 3, for %RETRY%{group}"
    assert (retry["what"], retry["reconsume_times"]) == (f"retry 1 of {group}", 1)
    passed = {(one["group"], one["topic"]): one["passed"] for one in found["groups"]}
    assert passed[group, topic]
    assert passed[group, f"%RETRY%{group}"]
