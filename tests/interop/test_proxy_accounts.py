"""RocketMQ's proxy 5.3.3 before a broker with accounts. The proxy signs with an account of its own,
whose rights docs/proxy.md lists; `silo acl` takes each of them away while all runs.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from interop.brokers import TRANSACTIONS
from interop.proxies import Proxy, make_topic, proxy, require_client, require_proxy
from interop.proxy_talks import Talk, talk
from support.brokers import BrokerProcess
from support.commands import silo
from support.harness import StoreProcess, eventually
from support.signers import ADMIN, SECRET, SigningClient

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)
PROXY = "proxy-key"
#: The topic that a proxy keeps for itself, and its group.
_OWN, _OWN_GROUP = "DefaultHeartBeatSyncerTopic", "CID_DefaultHeartBeatSyncerTopic"
_TOPICS = {"orders": "NORMAL", "paid": "TRANSACTION", "refused": "NORMAL"}
_INVISIBLE_S = 10


class Served(NamedTuple):
    """A broker with accounts, the proxy before it, and a client of the proxy."""

    broker: BrokerProcess
    proxy: Proxy
    talk: Talk
    accounts: Path

    def ask(self, do: str, topic: str, **more: object) -> dict[str, Any]:
        """The answer of the proxy to the producer or the consumer of a topic."""
        who = "sender" if do in {"send", "end", "asked"} else "reader"
        name = f"{topic}-{who}"
        return self.talk.ask(do, self.proxy.address, name, topic=topic, group=topic, **more)

    def take(self, topic: str) -> list[dict[str, Any]]:
        return self.talk.take(self.proxy.address, f"{topic}-reader", topic)

    @contextlib.contextmanager
    def without(self, option: str, right: str) -> Iterator[None]:
        """Changes a right of the proxy's account, and gives the old one back at the end."""
        name = right.partition("=")[0]
        full = f"{name}=PUB|SUB" if option == "--topic" else f"{name}=SUB"
        self._change(option, right)
        try:
            yield
        finally:
            self._change(option, full)

    def _change(self, *words: str) -> None:
        """Changes the proxy's account, and waits until the broker has it."""
        size = len(self.broker.log())
        silo("acl", "--file", str(self.accounts), "change", PROXY, *words)
        eventually(lambda: "accounts read" in self.broker.log()[size:], "the accounts are read")

    def count(self, topic: str) -> int:
        """How many messages a topic has."""
        with SigningClient(self.broker.address, ADMIN) as client:
            return sum(
                int(client.ask(30, {"topic": topic, "queueId": queue}).fields["offset"])
                for queue in (0, 1)
            )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    require_proxy()
    require_client("python")
    folder = tmp_path_factory.mktemp("accounts")
    file = folder / "plain_acl.yml"
    _add_accounts(file)
    store = StoreProcess(
        folder / "store",
        store_port=free_port(),
        transaction_timeout_ms=TRANSACTIONS["transactionTimeOut"],
        transaction_check_interval_ms=TRANSACTIONS["transactionCheckInterval"],
    )
    settings = ("aclEnable=true", f"acl_file={file}")
    with store, BrokerProcess(store.path, *settings) as broker:
        with SigningClient(broker.address, ADMIN) as operator:
            make_topic(operator, _OWN, "NORMAL")
            for topic, kind in _TOPICS.items():
                make_topic(operator, topic, kind, topic)
        signs = _signing_as(PROXY)
        with (
            proxy(folder / "proxy", broker.address, "DefaultCluster", **signs) as running,
            talk(folder, "talk") as client,
        ):
            for topic in _TOPICS:
                for who, group in (("sender", {}), ("reader", {"group": topic})):
                    name = f"{topic}-{who}"
                    joined = client.ask("join", running.address, name, topics=[topic], **group)
                    assert joined["code"] == "OK", joined
            yield Served(broker, running, client, file)


def _signing_as(account: str) -> dict[str, object]:
    """The settings of a proxy that signs its requests."""
    credentials = json.dumps({"accessKey": account, "secretKey": SECRET})
    return {
        "enableAclRpcHookForClusterMode": True,
        "innerClientAuthenticationCredentials": credentials,
    }


def _add_accounts(file: Path) -> None:
    """Those of an operator, and of the proxy with the rights that it needs."""
    rights = [f"--topic={topic}=PUB|SUB" for topic in (_OWN, *_TOPICS)]
    rights += [f"--group={group}=SUB" for group in (_OWN_GROUP, *_TOPICS)]
    for account, words in ((ADMIN, ["--admin"]), (PROXY, rights)):
        command = ("acl", "--file", str(file), "add", account, "--secret-stdin", *words)
        silo(*command, stdin=SECRET.encode())


def test_a_proxy_that_has_the_rights(served: Served) -> None:
    """Messages, acknowledgements, invisible times; a transaction that is asked about."""
    for body in ("first", "second"):
        assert served.ask("send", "orders", body=body)["code"] == "OK"
    taken: dict[str, dict[str, Any]] = {}
    while len(taken) < 2:
        found = served.take("orders")
        assert found, sorted(taken)
        taken |= {one["body"]: one for one in found}
    for do, body in (("ack", "first"), ("hide", "second")):
        mine = {name: taken[body][name] for name in ("id", "receipt")}
        answer = served.ask(do, "orders", **mine, invisible_s=_INVISIBLE_S)
        assert answer["code"] == "OK", answer
    assert served.ask("send", "paid", body="open", kind="TRANSACTION")["code"] == "OK"
    asked = served.ask("asked", "paid", wait_s=30)
    mine = {name: asked[name] for name in ("id", "transaction")}
    assert served.ask("end", "paid", **mine, commit=True, asked=True)["code"] == "OK"
    (paid,) = served.take("paid")
    assert served.ask("ack", "paid", id=paid["id"], receipt=paid["receipt"])["code"] == "OK"
    (again,) = served.take("orders")
    assert (again["body"], again["attempt"]) == ("second", 2)
    assert served.ask("ack", "orders", id=again["id"], receipt=again["receipt"])["code"] == "OK"


def test_a_proxy_that_may_not_send(served: Served) -> None:
    with served.without("--topic", "refused=SUB"):
        answer = served.ask("send", "refused", body="lost")
        assert f"account '{PROXY}' lacks PUB of topic 'refused'" in answer["why"], answer
    assert served.count("refused") == 0


@pytest.mark.parametrize(
    ("right", "lacks"),
    [
        (("--topic", "refused=PUB"), "SUB of topic 'refused'"),
        (("--group", "refused=DENY"), "SUB of group 'refused'"),
    ],
    ids=["topic", "group"],
)
def test_a_proxy_that_may_not_receive(served: Served, right: tuple[str, str], lacks: str) -> None:
    """The message stays where it is, also when it was received before the right was taken away."""
    with served.without(*right):
        answer = served.ask("receive", "refused", invisible_s=_INVISIBLE_S)
        assert lacks in answer["why"], answer
        assert answer["messages"] == []
    assert served.ask("send", "refused", body=lacks)["code"] == "OK"
    found: dict[str, Any] = {}
    while found.get("body") != lacks:
        (found,) = served.take("refused")
    mine = {name: found[name] for name in ("id", "receipt")}
    with served.without(*right):
        for do in ("ack", "hide"):
            answer = served.ask(do, "refused", **mine, invisible_s=_INVISIBLE_S)
            assert answer["code"] != "OK", answer
    hidden = served.ask("hide", "refused", **mine, invisible_s=_INVISIBLE_S)
    assert hidden["code"] == "OK", "the receipt still counts, so nothing was acknowledged"
    mine["receipt"] = hidden["receipt"]
    assert served.ask("ack", "refused", **mine)["code"] == "OK"


def test_a_proxy_that_may_not_end_a_transaction(served: Served) -> None:
    """The proxy tells its client nothing of it, as it does not wait for an answer. The broker's log
    says it, and the client is asked again.
    """
    before = served.count("paid")
    sent = served.ask("send", "paid", body="denied", kind="TRANSACTION")
    size = len(served.broker.log())
    mine = {"id": sent["id"], "transaction": sent["transaction"], "commit": True}
    with served.without("--topic", "paid=SUB"):
        served.ask("end", "paid", **mine, asked=False)
        eventually(
            lambda: "lacks PUB of topic 'paid'" in served.broker.log()[size:], "it is refused"
        )
        assert served.count("paid") == before
    mine = {"id": sent["id"], "transaction": ""}
    while mine["transaction"] != sent["transaction"]:  # it may have been asked of another one twice
        asked = served.ask("asked", "paid", wait_s=30)
        assert asked["code"] == "OK", asked
        mine["transaction"] = asked["transaction"]
    end = served.ask("end", "paid", **mine, commit=True, asked=True)
    assert end["code"] == "OK", end
    (found,) = served.take("paid")
    assert found["body"] == "denied"
    assert served.count("paid") == before + 1


def test_a_proxy_that_asks_its_clients_for_their_accounts(served: Served, tmp_path: Path) -> None:
    """They are the broker's. The proxy asks it for secrets and rights, as an administrator."""
    client = "client-key"
    words = ("--topic", "orders=PUB", "--secret-stdin")
    silo("acl", "--file", str(served.accounts), "add", client, *words, stdin=SECRET.encode())
    package = "org.apache.rocketmq.proxy.auth"
    more = {
        **_signing_as(ADMIN),
        "authenticationEnabled": True,
        "authenticationMetadataProvider": f"{package}.ProxyAuthenticationMetadataProvider",
        "authorizationEnabled": True,
        "authorizationMetadataProvider": f"{package}.ProxyAuthorizationMetadataProvider",
    }
    before = served.count("orders")
    with proxy(tmp_path / "asking", served.broker.address, "DefaultCluster", **more) as asking:
        at = asking.address

        def join(name: str, topic: str, *credentials: str) -> dict[str, Any]:
            return served.talk.ask("join", at, name, topics=[topic], credentials=credentials)

        for name, credentials in (("nobody", ()), ("liar", (client, "another secret"))):
            assert join(name, "orders", *credentials)["code"] == "REFUSED"
        assert join("good", "orders", client, SECRET)["code"] == "OK"
        sent = served.talk.ask("send", at, "good", topic="orders", body="signed")
        assert sent["code"] == "OK", sent
        sent = served.talk.ask("send", at, "good", topic="refused", body="x")
        assert "User:client-key has no permission to access Topic:refused" in sent["why"], sent
    assert served.count("orders") == before + 1
