"""RocketMQ's clients for Go, Node and Python against a server: all that each of them can do. They
and the Java clients read what each of them has sent.

The servers are RocketMQ's own broker, which tests the tests, and `silo broker`.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest
from interop.brokers import DELAYS_S, QUEUES, SERVERS
from interop.clients import CLIENTS, OTHERS, Clients, is_built, settled
from interop.servers import parameters
from support.harness import LONG, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interop.brokers import Server
    from interop.clients import Client

pytestmark = pytest.mark.timeout(180)
#: A group's first retry waits for the client's next look at the group's retry topic.
PATIENCE_S = 45.0
#: The delay level of a first retry is 3.
RETRY_S = DELAYS_S[3 - 1]
#: The Python client says of no batch that it is one, in words that RocketMQ understands.
BATCH_SENDERS = [one for one in CLIENTS if one not in {"node", "python"}]
NAMED = ["colour", "with blank"]
_numbers = itertools.count()


@pytest.fixture(scope="module", params=parameters(SERVERS))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with SERVERS[request.param](tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def clients(server: Server, tmp_path: Path) -> Clients:
    return Clients(server.names, tmp_path)


@pytest.fixture
def topic(server: Server) -> str:
    return server.make_topic(fresh("topic"))


def shortly(client: str) -> list[object]:
    """The clients as parameters of a test that runs with one of them in the short form. Each runs
    with some test there, and with all that wait for nothing.
    """
    return [pytest.param(one, marks=() if one == client else LONG) for one in OTHERS]


def fresh(what: str) -> str:
    """A name that no other test uses."""
    return f"{what}-{next(_numbers)}"


def bodies(lines: list[dict[str, Any]]) -> list[str]:
    return sorted(line["body"] for line in lines)


def plain(*texts: str, **more: Any) -> list[dict[str, Any]]:
    return [{"body": text, **more} for text in texts]


def all_ways(client: str) -> list[dict[str, Any]]:
    """Messages in each of the ways in which the client sends."""
    ways = ["sync", "async", "oneway"]
    ways += ["batch"] * 3 if client in BATCH_SENDERS else []
    rich = [
        {
            "body": f"{way} {number} \u00fc\u4e2d",
            "how": way,
            "tags": f"tag{number}",
            "keys": [f"key{number}", "all"],
            "properties": {"colour": f"red{number}", "with blank": "a b"},
        }
        for number, way in enumerate(ways)
    ]
    return [*rich, *plain("neither tag nor key", f"compressed {'0123456789' * 600}")]


@pytest.fixture(scope="module")
def sent(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """The topic of each client, with the messages that it sent, and what it told of them."""
    senders = Clients(server.names, tmp_path_factory.mktemp("senders"))
    found = {}
    for client in filter(is_built, CLIENTS):
        name = server.make_topic(fresh("sent"))
        messages = all_ways(client)
        found[name] = (messages, senders.send(client, name, messages))
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_reads_what_each_client_sent(
    clients: Clients,
    client: str,
    sent: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]],
) -> None:
    count = sum(len(messages) for messages, _ in sent.values())
    named = [*NAMED, "UNIQ_KEY"]
    with clients.consumer(client, fresh("readers"), *sent, properties=named) as reader:
        reader.wait_for("received", count)
        received = settled(reader)
    assert len(received) == count
    for name, (messages, told) in sent.items():
        found = {line["body"]: line for line in received if line["topic"] == name}
        assert sorted(found) == bodies(messages)
        for message, answer in zip(messages, told, strict=True):
            check_message(found[message["body"]], message, answer)


def check_message(found: dict[str, Any], message: dict[str, Any], told: dict[str, Any]) -> None:
    assert found["tags"] == message.get("tags", "")
    assert found["keys"] == " ".join(message.get("keys", ()))
    own_key = found["properties"].pop("UNIQ_KEY", None)
    assert found["properties"] == message.get("properties", {})
    assert found["times"] == 0
    assert told.get("status", 0) == 0
    for member in ("queue", "offset"):
        assert told.get(member, found[member]) == found[member]
    if message.get("how") != "batch":
        assert own_key
        # Node tells the offset message ID.
        assert told.get("id", own_key) == own_key or len(told["id"]) == 32


# The Node client sends to topics that are there.
@pytest.mark.parametrize("client", ["go", "python"])
def test_the_first_message_makes_its_topic(server: Server, clients: Clients, client: str) -> None:
    topic = fresh("new")
    assert server.route(topic) is None
    clients.send(client, topic, plain("first"))
    eventually(lambda: server.route(topic) is not None, "the topic is registered", PATIENCE_S)
    route = server.route(topic)
    assert route is not None
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (4, 4, 6)
    with clients.consumer(client, fresh("group"), topic) as reader:
        reader.wait_for("received", 1)
        assert bodies(settled(reader)) == ["first"]


@pytest.mark.parametrize("client", OTHERS)
def test_a_consumer_gets_exactly_the_tags_that_it_asks_for(
    clients: Clients, client: str, topic: str
) -> None:
    # "AaAa" and "BBBB" have one hash code: the client must drop what the server lets pass.
    tags = ["red", "blue", "green", "AaAa", "BBBB"]
    messages = [{"body": f"{tag} {number}", "tags": tag} for number in range(6) for tag in tags]
    clients.send(client, topic, [*messages, *plain("without a tag")])
    wanted = [one for one in messages if one["tags"] in {"red", "blue", "AaAa"}]
    with clients.consumer(client, fresh("group"), topic, filter="red || blue || AaAa") as reader:
        reader.wait_for("received", len(wanted))
        assert bodies(settled(reader)) == bodies(wanted)


@pytest.mark.parametrize("client", shortly("python"))
def test_a_consumer_goes_on_where_its_group_ended(
    clients: Clients, client: str, topic: str
) -> None:
    group = fresh("group")
    clients.send(client, topic, plain(*"abcdefgh"))
    with clients.consumer(client, group, topic) as reader:
        reader.wait_for("received", 8)
        assert bodies(settled(reader)) == list("abcdefgh")
    clients.send(client, topic, plain(*"ijk"))
    with clients.consumer(client, group, topic) as reader:
        reader.wait_for("received", 3)
        assert bodies(settled(reader)) == list("ijk")


@pytest.mark.parametrize("client", OTHERS)
def test_a_waiting_consumer_gets_a_message_at_once(
    clients: Clients, client: str, topic: str
) -> None:
    group = fresh("group")
    with clients.consumer(client, group, topic) as reader:
        # The first message shows that all queues are pulled.
        clients.send(client, topic, plain(*(f"first {number}" for number in range(4 * QUEUES))))
        reader.wait_for("received", 4 * QUEUES)
        (told,) = clients.send(client, topic, plain("second"))
        received = reader.wait_for("received", 4 * QUEUES + 1)[-1]
        assert received["at"] - told["at"] < 1000


@pytest.mark.parametrize("client", shortly("go"))
def test_a_delayed_message_comes_after_its_delay(clients: Clients, client: str, topic: str) -> None:
    with clients.consumer(client, fresh("group"), topic) as reader:
        _, later = clients.send(
            client, topic, [*plain("now"), *plain("later", delay=2, tags="red")]
        )
        reader.wait_for("received", 2)
        first, second = settled(reader)
    assert (first["body"], second["body"]) == ("now", "later")
    assert second["tags"] == "red"
    taken = second["at"] - later["at"]
    assert DELAYS_S[1] * 1000 - 100 <= taken < DELAYS_S[1] * 1000 + 2500


@pytest.mark.parametrize("client", shortly("node"))
def test_a_refused_message_comes_again_after_its_delay(
    clients: Clients, client: str, topic: str
) -> None:
    clients.send(client, topic, plain("refused", tags="red", properties={"colour": "red"}))
    with clients.consumer(client, fresh("group"), topic, refuse=1, properties=["colour"]) as reader:
        reader.wait_for("received", 2)
        first, second = settled(reader)
    assert [first["times"], second["times"]] == [0, 1]
    for line in (first, second):
        assert (line["topic"], line["body"], line["tags"]) == (topic, "refused", "red")
        assert line["properties"] == {"colour": "red"}
    taken = (second["at"] - first["at"]) / 1000
    assert RETRY_S - 0.1 <= taken < RETRY_S + PATIENCE_S


@pytest.mark.parametrize("client", shortly("python"))
def test_a_message_that_is_refused_too_often_is_a_dead_letter(
    server: Server, clients: Clients, client: str, topic: str
) -> None:
    if client == "python" and server.kind == "rocketmq":
        pytest.skip("RocketMQ 5.3 fails on a dead letter of a client that tells no origin topic")
    # The Python client does not say how often: the group does.
    group = server.make_group(fresh("group"), 1) if client == "python" else fresh("group")
    letters = f"%DLQ%{group}"
    clients.send(client, topic, plain("dead", properties={"colour": "red"}))
    with clients.consumer(client, group, topic, refuse=99, most=1) as reader:
        reader.wait_for("received", 2)
        eventually(lambda: server.route(letters) is not None, "there are dead letters", PATIENCE_S)
        assert [line["times"] for line in settled(reader)] == [0, 1]
    assert server.bounds(letters, 0) == (0, 1)
    named = ["colour", "RETRY_TOPIC"]
    with clients.consumer(client, fresh("undertakers"), letters, properties=named) as reader:
        reader.wait_for("received", 1)
        (letter,) = settled(reader)
    assert (letter["body"], letter["queue"]) == ("dead", 0)
    assert letter["properties"] == {"colour": "red", "RETRY_TOPIC": topic}


def test_messages_of_transactions_come_once(clients: Clients, topic: str) -> None:
    """Of the clients here only Go's sends them."""
    texts = ["commit 1", "roll back", "later commit", "later roll back", "commit 2"]
    request = {"do": "transact", "group": fresh("ending"), "topics": [topic]}
    with (
        clients.consumer("go", fresh("group"), topic) as reader,
        clients.start("go", {**request, "messages": plain(*texts)}) as sender,
    ):
        sender.wait_for("ready")
        reader.wait_for("received", 3)
        eventually(
            lambda: "later roll back" in {line["body"] for line in sender.told("checked")},
            "what is open is asked about",
        )
        assert bodies(settled(reader)) == ["commit 1", "commit 2", "later commit"]


@pytest.mark.parametrize("client", ["go", "python"])
def test_an_orderly_consumer_keeps_the_order_of_a_queue(
    clients: Clients, client: str, topic: str
) -> None:
    messages = [
        {"body": f"{shard} {number}", "shard": shard} for number in range(3) for shard in range(4)
    ]
    clients.send(client, topic, messages)
    with clients.consumer(client, fresh("group"), topic, orderly=True, refuse=1) as reader:
        reader.wait_for("received", 2 * len(messages))
        received = settled(reader)
    assert len(received) == 2 * len(messages)
    for shard in range(4):
        own = [line for line in received if line["body"].startswith(f"{shard} ")]
        assert len({line["queue"] for line in own}) == 1
        # A refused message comes again before the next one.
        expected = [f"{shard} {number}" for number in range(3) for _ in range(2)]
        assert [line["body"] for line in own] == expected


@pytest.mark.parametrize("client", shortly("node"))
def test_each_member_gets_what_is_broadcast(clients: Clients, client: str, topic: str) -> None:
    group = fresh("group")
    texts = [f"to all {number}" for number in range(4 * QUEUES)]
    with (
        clients.consumer(client, group, topic, broadcast=True) as first,
        clients.consumer(client, group, topic, broadcast=True) as second,
    ):
        clients.send(client, topic, plain(*texts))
        for member in (first, second):
            member.wait_for("received", len(texts))
            assert bodies(settled(member)) == sorted(texts)


@pytest.mark.parametrize(("client", "how"), [("go", "pull"), ("go", "poll"), ("python", "pull")])
def test_a_pull_consumer_reads_all(
    server: Server, clients: Clients, client: str, how: str, topic: str
) -> None:
    texts = [f"pulled {number}" for number in range(50)]
    clients.send(client, topic, plain(*texts, tags="red", properties={"colour": "red"}))
    ends = [server.bounds(topic, queue)[1] for queue in range(QUEUES)]
    assert sum(ends) == len(texts)
    queues = [
        {"broker": server.broker_name, "queue": queue, "count": end}
        for queue, end in enumerate(ends)
    ]
    with clients.consumer(
        client, fresh("group"), topic, do=how, queues=queues, properties=["colour"]
    ) as reader:
        reader.wait_for("received", len(texts))
        received = settled(reader)
    assert bodies(received) == sorted(texts)
    for line in received:
        assert (line["tags"], line["properties"]) == ("red", {"colour": "red"})


def test_the_go_client_asks_and_replies(clients: Clients, topic: str) -> None:
    texts = ["first", "second \u00fc"]
    with clients.consumer("go", fresh("repliers"), topic, do="reply"):
        request = {"do": "ask", "group": fresh("askers"), "topics": [topic]}
        with clients.start("go", {**request, "messages": plain(*texts)}) as asker:
            told = asker.wait_for("replied", len(texts))
    assert [line["reply"] for line in told] == [f"re: {text}" for text in texts]


@pytest.mark.parametrize("client", shortly("go"))
def test_two_members_of_a_group_share_the_queues(clients: Clients, client: str, topic: str) -> None:
    group = fresh("group")
    rounds = Rounds(clients, client, topic)
    with (
        clients.consumer(client, group, topic) as first,
        clients.consumer(client, group, topic) as second,
    ):
        shared = rounds.until_each_has(QUEUES // 2, first, second)
        assert sorted([*shared[0], *shared[1]]) == list(range(QUEUES))
        second.kill()
        (taken,) = rounds.until_each_has(QUEUES, first)
        assert sorted(taken) == list(range(QUEUES))
        # A message may come twice where a queue changed hands. None is missing.
        received = first.received() + second.received()
        assert {line["body"] for line in received} == set(rounds.texts)


class Rounds:
    """Rounds of messages to all queues of a topic."""

    def __init__(self, clients: Clients, client: str, topic: str) -> None:
        self.texts: list[str] = []
        self._clients, self._client, self._topic = clients, client, topic

    def until_each_has(self, count: int, *members: Client) -> list[set[int]]:
        """Sends rounds until each member gets one from so many queues: from which queues."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            own = [f"round {len(self.texts)} {number}" for number in range(6 * QUEUES)]
            self._clients.send(self._client, self._topic, plain(*own))
            self.texts += own
            queues = [
                {line["queue"] for line in settled(member) if line["body"] in own}
                for member in members
            ]
            if all(len(each) == count for each in queues):
                return queues
            assert time.monotonic() < deadline, queues
