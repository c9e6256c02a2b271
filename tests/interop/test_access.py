"""RocketMQ's clients sign as the broker checks: with the right secret they send and consume, with a
wrong one, or none, they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interop.clients import Clients, require_client
from support.brokers import BrokerProcess
from support.harness import LONG, StoreProcess, eventually
from support.signers import ACCOUNTS, READER, SECRET

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)
#: Those that are told of credentials; RocketMQ 5.3.3 signs by its AclClientRPCHook.
CLIENTS = ("java-5.3.3", "go", "python")
GROUP = "readers"
#: Bad credentials, and what the broker says of them.
REFUSED = {
    "wrong": ([READER, "a wrong secret"], "signature of account 'reader-key'"),
    "none": (None, "no AccessKey"),
}
#: What runs in the short form.
SHORT = {("wrong", "java-5.3.3"), ("none", "go"), ("wrong", "python")}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that asks for accounts, in which one may send to topics of the clients' names."""
    folder = tmp_path_factory.mktemp("server")
    path = folder / "plain_acl.yml"
    lines = [f"      - {client.replace('.', '-')}=PUB|SUB" for client in CLIENTS]
    groups = [f"      - {GROUP}-{client.replace('.', '-')}=SUB" for client in CLIENTS]
    text = ACCOUNTS.replace("topicPerms:", "\n".join(["topicPerms:", *lines]))
    path.write_text(text.replace("groupPerms:", "\n".join(["groupPerms:", *groups])))
    path.chmod(0o600)
    with (
        StoreProcess(folder / "store", store_port=free_port()) as store,
        BrokerProcess(store.path, "aclEnable=true", f"acl_file={path}") as running,
    ):
        yield running


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_signs(broker: BrokerProcess, client: str, tmp_path: Path) -> None:
    topic = client.replace(".", "-")
    clients = Clients(broker.address, tmp_path)
    right = [READER, SECRET]
    bodies = [f"m{number} \u00fc\u4e2d" for number in range(20)]
    messages = [{"body": body, "tags": "a", "keys": ["k"]} for body in bodies]
    request = {
        "do": "send", "group": "senders", "topics": [topic], "messages": messages,
        "credentials": right,
    }  # fmt: skip
    with clients.start(client, request) as running:
        running.wait_for("done")
        assert len(running.told("sent")) == len(bodies)
    with clients.consumer(client, f"{GROUP}-{topic}", topic, credentials=right) as consumer:
        consumer.wait_for("received", len(bodies))
        assert sorted(one["body"] for one in consumer.received()) == sorted(bodies)


@pytest.mark.parametrize(
    ("client", "credentials", "why"),
    [
        pytest.param(
            client, *refused, id=f"{name}-{client}", marks=() if (name, client) in SHORT else LONG
        )
        for name, refused in REFUSED.items()
        for client in CLIENTS
    ],
)
def test_a_client_that_is_refused(
    broker: BrokerProcess, client: str, credentials: list[str] | None, why: str, tmp_path: Path
) -> None:
    require_client(client)
    size = len(broker.log())
    topic = client.replace(".", "-")
    request = {"do": "send", "group": "senders", "topics": [topic], "messages": [{"body": "x"}]}
    if credentials is not None:
        request["credentials"] = credentials
    clients = Clients(broker.address, tmp_path)
    with clients.start(client, request) as running:
        eventually(lambda: why in broker.log()[size:], "the broker refuses", 60)
        assert running.told("sent") == []
        running.kill()
