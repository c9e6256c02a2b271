"""RocketMQ's proxies 5.3.3 before a cluster: two of them beside one another, and two brokers that
are found by `silo names`. A broker that is killed with its store loses nothing that it had taken.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from interop.brokers import TRANSACTIONS
from interop.proxies import Proxy, make_topic, proxy, require_client, require_proxy
from interop.proxy_talks import Talk, talk
from support.brokers import BrokerProcess
from support.harness import StoreProcess, eventually
from support.name_servers import name_server
from support.remoting_client import RemotingClient

from silomq.bench.loopback import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)
#: The topics of the tests, and what kind of messages each takes.
_TOPICS = {"handles": "NORMAL", "halves": "TRANSACTION", "spread": "NORMAL", "killed": "NORMAL"}
_CLIENT = "one"
#: A message that nobody acknowledges comes again after this time, the shortest that a proxy takes.
_INVISIBLE_S = 10
#: A proxy looks for routes again after this time.
_ROUTES_S = 2


class Node(NamedTuple):
    """A store, and the broker that serves it."""

    store: StoreProcess
    broker: BrokerProcess

    def kill(self) -> None:
        """Kills both."""
        self.broker.kill()
        self.store.crash()

    def start(self) -> None:
        self.store.start()
        self.broker.start()


class Cluster(NamedTuple):
    """Two brokers and two proxies, each of which knows both brokers."""

    nodes: list[Node]
    proxies: list[Proxy]
    talk: Talk

    def join(self, topic: str, *, to: Proxy | None = None) -> None:
        """Sessions of a producer and of a consumer, whose group has the topic's name."""
        for one in self.proxies if to is None else [to]:
            for client, group in (("producer", {}), (_CLIENT, {"group": topic})):
                who = f"{topic}-{client}"
                joined = self.talk.ask("join", one.address, who, topics=[topic], **group)
                assert joined["code"] == "OK", joined

    def ask(self, do: str, at: Proxy, topic: str, **more: object) -> dict[str, Any]:
        """The answer of a proxy."""
        who = "producer" if do in {"send", "end", "asked", "leave"} else _CLIENT
        return self.talk.ask(do, at.address, f"{topic}-{who}", topic=topic, group=topic, **more)

    def take(self, at: Proxy, topic: str) -> list[dict[str, Any]]:
        return self.talk.take(at.address, f"{topic}-{_CLIENT}", topic)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require_proxy()
    require_client("python")
    folder = tmp_path_factory.mktemp("cluster")
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(name_server(folder)).address
        nodes = [_node(stack, folder, names, name) for name in ("broker-a", "broker-b")]
        for node in nodes:
            with RemotingClient(node.broker.address) as operator:
                for topic, kind in _TOPICS.items():
                    make_topic(operator, topic, kind, topic)
        with RemotingClient(names) as asked:
            eventually(
                lambda: all(_brokers_of(asked, topic) == 2 for topic in _TOPICS), "all are at both"
            )
        more = {"topicRouteServiceCacheRefreshSeconds": _ROUTES_S}
        proxies = [
            stack.enter_context(proxy(folder / name, names, "DefaultCluster", **more))
            for name in ("left", "right")
        ]
        yield Cluster(nodes, proxies, stack.enter_context(talk(folder, "talk")))


def _node(stack: contextlib.ExitStack, folder: Path, names: str, name: str) -> Node:
    store = StoreProcess(
        folder / name,
        store_port=free_port(),
        mapped_file_size_commit_log=1 << 22,
        max_message_size=1 << 20,
        transaction_timeout_ms=TRANSACTIONS["transactionTimeOut"],
        transaction_check_interval_ms=TRANSACTIONS["transactionCheckInterval"],
    )
    stack.enter_context(store)
    broker = BrokerProcess(store.path, f"namesrvAddr={names}", f"brokerName={name}")
    return Node(store, stack.enter_context(broker))


def _brokers_of(names: RemotingClient, topic: str) -> int:
    answer = names.ask(105, {"topic": topic})
    return answer.body.count(b'"brokerName":"broker-') // 2 if answer.code == 0 else 0


def test_a_receipt_counts_at_the_other_proxy(cluster: Cluster) -> None:
    """For an acknowledgement, and for another invisible time, which makes it worth nothing."""
    left, right = cluster.proxies
    cluster.join("handles")
    for body in ("acked", "hidden"):
        assert cluster.ask("send", left, "handles", body=body)["code"] == "OK"
    taken: dict[str, dict[str, Any]] = {}
    while len(taken) < 2:
        found = cluster.take(left, "handles")
        assert found, sorted(taken)
        taken |= {one["body"]: one for one in found}
    acked, hidden = ({n: taken[body][n] for n in ("id", "receipt")} for body in ("acked", "hidden"))
    assert cluster.ask("ack", right, "handles", **acked)["code"] == "OK"
    answer = cluster.ask("hide", right, "handles", **hidden, invisible_s=_INVISIBLE_S)
    assert answer["code"] == "OK", answer
    cluster.ask("ack", left, "handles", **hidden)
    # On a busy machine a receive may end before the message is visible again.
    (again,) = cluster.take(left, "handles") or cluster.take(left, "handles")
    assert (again["body"], again["attempt"]) == ("hidden", 2)
    mine = {name: again[name] for name in ("id", "receipt")}
    assert cluster.ask("ack", right, "handles", **mine)["code"] == "OK"


def test_transactions_are_checked_through_the_other_proxy(cluster: Cluster) -> None:
    """Their producer has been at one proxy, and is at the other one now."""
    left, right = cluster.proxies
    cluster.join("halves", to=left)
    sent = {}
    for body in ("kept", "dropped"):
        sent[body] = cluster.ask("send", left, "halves", body=body, kind="TRANSACTION")
        assert sent[body]["code"] == "OK", sent
    assert cluster.ask("leave", left, "halves")["code"] == "OK"
    cluster.join("halves", to=right)
    asked: set[str] = set()
    while asked != {"kept", "dropped"}:
        found = cluster.ask("asked", right, "halves", wait_s=30)
        assert found["code"] == "OK", found
        body = str(found["body"])
        assert found["transaction"] == sent[body]["transaction"]
        if body in asked:
            # Asked about again before it was ended. By its source a proxy may keep but one of two
            # questions, and then refuses a second end.
            continue
        mine = {"id": found["id"], "transaction": found["transaction"]}
        end = cluster.ask("end", right, "halves", **mine, commit=body == "kept", asked=True)
        assert end["code"] == "OK", end
        asked.add(body)
    (only,) = cluster.take(right, "halves")
    assert only["body"] == "kept"


def test_messages_go_to_both_brokers_and_come_from_both(cluster: Cluster) -> None:
    left, right = cluster.proxies
    cluster.join("spread")
    sent = {f"m{number}" for number in range(20)}
    for body, to in zip(sorted(sent), itertools.cycle((left, right)), strict=False):
        assert cluster.ask("send", to, "spread", body=body)["code"] == "OK"
    counts = [_count(node, "spread") for node in cluster.nodes]
    assert sum(counts) == len(sent)
    assert min(counts) > 0, counts
    found: list[str] = []
    while len(found) < len(sent):
        taken = cluster.take(right, "spread")
        assert taken, sorted(sent - set(found))
        found += [one["body"] for one in taken]
        for one in taken:
            mine = {"id": one["id"], "receipt": one["receipt"]}
            assert cluster.ask("ack", left, "spread", **mine)["code"] == "OK"
    assert sorted(found) == sorted(sent)


def _count(node: Node, topic: str) -> int:
    with RemotingClient(node.broker.address) as client:
        return sum(
            int(client.ask(30, {"topic": topic, "queueId": queue}).fields["offset"])
            for queue in (0, 1)
        )


def test_a_broker_is_killed_while_clients_send_and_receive(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Nothing that was sent is lost, and nothing that was acknowledged comes again."""
    left, right = cluster.proxies
    cluster.join("killed")
    ends = threading.Event()
    sent: list[str] = []
    acked: list[str] = []
    again: list[str] = []

    def send(one: Talk) -> None:
        for number in itertools.count():
            if ends.is_set():
                return
            answer = one.ask("send", left.address, "a", topic="killed", body=f"m{number}")
            if answer["code"] == "OK":
                sent.append(f"m{number}")

    def consume(one: Talk) -> None:
        asks = {"topic": "killed", "group": "killed"}
        while not (ends.is_set() and set(sent) <= set(acked)):
            found = one.ask("receive", right.address, "b", **asks, invisible_s=_INVISIBLE_S)
            for message in found.get("messages", ()):
                if message["body"] in acked:
                    again.append(message["body"])
                mine = {"id": message["id"], "receipt": message["receipt"]}
                if one.ask("ack", right.address, "b", **asks, **mine)["code"] == "OK":
                    acked.append(message["body"])

    with talk(tmp_path, "sender") as sender, talk(tmp_path, "receiver") as receiver:
        sender.ask("join", left.address, "a", topics=["killed"])
        receiver.ask("join", right.address, "b", topics=["killed"], group="killed")
        threads = [_thread(send, sender), _thread(consume, receiver)]
        eventually(lambda: len(acked) > 40, "messages flow", 30)
        cluster.nodes[0].kill()
        before = len(sent), len(acked)
        eventually(
            lambda: len(sent) > before[0] + 40 and len(acked) > before[1] + 40,
            "messages flow through the other broker",
            40,
        )
        cluster.nodes[0].start()
        eventually(lambda: _count(cluster.nodes[0], "killed") > 0, "the broker is back", 30)
        ends.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), sorted(set(sent) - set(acked))[:20]
    assert set(sent) <= set(acked)
    assert not again


def _thread(run: Callable[[Talk], None], one: Talk) -> threading.Thread:
    found = threading.Thread(target=run, args=(one,), daemon=True)
    found.start()
    return found
