"""Requests and replies between RocketMQ's own clients at `silo broker` and clients of its store."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest
from interop.brokers import silomq_server
from interop.clients import JAVA_CLIENTS, Clients
from support.repliers import Replier

from silomq import RequestProducer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interop.brokers import Server

pytestmark = pytest.mark.timeout(180)
ASKERS = (*JAVA_CLIENTS, "go")
TEXTS = ("first", "second \u00fc")
#: Go's client says of a long body that it is compressed, and does not compress it.
LONG = "long " + "0123456789" * 900
PATIENCE_S = 45.0
_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with silomq_server(folder) as running:
        yield running


def fresh(what: str) -> str:
    return f"{what}-{next(_numbers)}"


def texts_for(client: str) -> tuple[str, ...]:
    return TEXTS if client == "go" else (*TEXTS, LONG)


@pytest.mark.parametrize("client", ASKERS)
def test_a_client_of_the_store_replies_to_one_on_the_network(
    server: Server, folder: Path, tmp_path: Path, client: str
) -> None:
    topic = server.make_topic(fresh("asked"))
    texts = texts_for(client)
    messages = [{"body": text} for text in texts]
    request = {"do": "ask", "group": fresh("askers"), "topics": [topic], "messages": messages}
    with (
        Replier(folder / "store", topic),
        Clients(server.names, tmp_path).start(client, request) as asker,
    ):
        told = asker.wait_for("replied", len(texts))
    assert [line["reply"] for line in told] == [f"re: {text}" for text in texts]


@pytest.mark.parametrize("client", ASKERS)
def test_a_client_on_the_network_replies_to_one_of_the_store(
    server: Server, folder: Path, tmp_path: Path, client: str
) -> None:
    topic = server.make_topic(fresh("asked"))
    clients = Clients(server.names, tmp_path)
    with (
        clients.consumer(client, fresh("repliers"), topic, do="reply"),
        RequestProducer(folder / "store") as asker,
    ):
        for text in texts_for(client):
            assert asker.request(topic, text, timeout=PATIENCE_S).body.decode() == f"re: {text}"
        under_way = [asker.request_async(topic, text, timeout=PATIENCE_S) for text in TEXTS * 10]
        found = [future.result().body.decode() for future in under_way]
    assert found == [f"re: {text}" for text in TEXTS * 10]
    assert not [one for one in threading.enumerate() if one.name == "silomq-replies"]
