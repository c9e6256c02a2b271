"""A running store answers requests that make no sense with an error, and goes on."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, Self

import msgspec
import pytest
from support.harness import StoreProcess

from silomq import Admin, IllegalMessage, IllegalType
from silomq.client.session import Connection
from silomq.shm import mail
from silomq.shm.protocol.answers import (
    AnyAnswer,
    Done,
    Error,
    Joined,
    Report,
    Welcome,
)
from silomq.shm.protocol.requests import PROTOCOL, AskGroup, Create, Watch
from silomq.store.disk.paths import SOCKET

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWERS: mail.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)
JOIN = {
    "do": "join",
    "group": "g",
    "model": "clustering",
    "filters": {"t": ["TAG", "*"]},
    "start": {"from": "earliest"},
}
FAR = {"from": "time", "offsets": {"t": {"0": 2**63}}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path_factory.mktemp("malformed") / "store", max_queues=20_000) as store:
        with Admin(store.path) as admin:
            admin.create_topic("t", 2)
        yield store


class Client:
    """A connection that sends what it likes."""

    def __init__(self, store: StoreProcess) -> None:
        self.store = store
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end.settimeout(10)
        self._end.connect(str(store.path / SOCKET))

    def send(self, packet: bytes) -> AnyAnswer | None:
        """The answer, None when the registry hangs up."""
        self._end.send(packet)
        return self.receive()

    def receive(self) -> AnyAnswer | None:
        answer, fds = mail.receive(self._end, ANSWERS)
        mail.close_all(fds)
        return answer

    def ask(self, **request: Any) -> AnyAnswer | None:
        return self.send(json.dumps(request).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()


@pytest.fixture
def client(store: StoreProcess) -> Iterator[Client]:
    """A client with a session; afterwards the registry is the one that it was."""
    before = store.pid("registry")
    with Client(store) as client:
        assert isinstance(client.ask(do="hello", protocol=PROTOCOL, id=1), Welcome)
        yield client
    with Admin(store.path) as admin:
        assert next(info.topic for info in admin.topics()) == "t"
    assert store.pid("registry") == before


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({**JOIN, "filters": []}, "$.filters"),
        ({**JOIN, "start": FAR}, "$.start.offsets"),
        ({**JOIN, "start": {"from": "time", "offsets": []}}, "$.start.offsets"),
        ({"do": "reset", "group": "g", "topic": "t", "offsets": []}, "$.offsets"),
        ({"do": "reset", "group": "g", "topic": "t", "offsets": {}}, "$.offsets"),
        ({"do": "sync", "have": 0, "released": 7}, "$.released"),
        ({"do": "watch", "slots": [-1]}, "$.slots[0]"),
        ({"do": "lease", "offset": 2**63}, "$.offset"),
        ({"do": "topics", "after": -1}, "$.after"),
        ({"do": "alter", "topic": "t", "perm": "all"}, "$.perm"),
        ({"do": "alter", "topic": "t", "permission": 6}, "permission"),
        ({"do": "dance"}, "$.do"),
        ({}, "do"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_answered_with_the_name_of_the_field(
    request_: dict[str, Any], field: str, client: Client
) -> None:
    answer = client.ask(**request_, id=41)
    assert isinstance(answer, Error)
    assert answer.id == 41
    assert answer.status == "MESSAGE_ILLEGAL"
    assert answer.why.startswith("malformed request: ")
    assert field in answer.why
    # Nothing was stored, and the connection goes on.
    assert isinstance(client.ask(do="report", id=42), Report)
    unknown = client.ask(do="group", group="g", after=0)
    assert isinstance(unknown, Error)
    assert unknown.why == "there is no consumer group g"


@pytest.mark.parametrize("packet", [b"\0", b"not JSON", b'{"do": "clean"', b'{"do": "\xff\xfe"}'])
def test_what_is_not_json_is_answered_and_ends_the_connection(
    packet: bytes, client: Client
) -> None:
    answer = client.send(packet)
    assert isinstance(answer, Error)
    assert answer.why.startswith("not a message: ")
    assert client.receive() is None


def test_a_packet_that_is_too_long_ends_the_connection(client: Client) -> None:
    answer = client.send(b'{"do": "clean", "x": "' + b"x" * mail.MAX_PACKET + b'"}')
    assert isinstance(answer, Error)
    assert "more than the 65536 bytes" in answer.why


def test_a_client_of_another_version_is_told_so(store: StoreProcess) -> None:
    with Client(store) as client:
        answer = client.ask(do="hello", protocol=PROTOCOL + 1, wants="more", id=1)
        assert answer == Error(
            status="SERVICE_NOT_AVAILABLE",
            why=f"the client speaks protocol {PROTOCOL + 1}, the store {PROTOCOL}: use one version",
            id=1,
        )


@pytest.mark.parametrize(
    "request_",
    [JOIN, {"do": "sync", "have": 0, "released": []}, {"do": "lease", "offset": 0}],
    ids=lambda request: str(request["do"]),
)
def test_a_request_that_needs_a_session_is_refused_without_one(
    request_: dict[str, Any], store: StoreProcess
) -> None:
    with Client(store) as client:
        answer = client.ask(**request_)
        assert isinstance(answer, Error)
        assert "must be hello" in answer.why
        assert isinstance(client.ask(do="clean"), Done)


def test_an_error_that_quotes_the_request_is_shortened(client: Client) -> None:
    """The group's members and the request together would fit no packet."""
    tags = "x" * 60_000
    filters = {"t": ["TAG", tags]}
    assert not isinstance(client.ask(**{**JOIN, "filters": filters, "group": "long"}), Error)
    with Client(client.store) as other:
        other.ask(do="hello", protocol=PROTOCOL)
        answer = other.ask(**{**JOIN, "filters": {"t": ["TAG", "y" + tags]}, "group": "long"})
    assert isinstance(answer, Error)
    assert answer.why.startswith("group long has members that read")
    assert len(answer.why) < 5000


def test_parts_that_do_not_fit_end_the_connection(client: Client) -> None:
    answer = client.send(b"1/2 short")
    assert isinstance(answer, Error)
    assert "all parts but the last one have" in answer.why
    assert client.receive() is None


def test_a_request_that_the_disk_refuses_is_answered_and_can_be_repeated(
    client: Client, store: StoreProcess
) -> None:
    """The registry does not die of it, and has not kept half of what was asked."""
    obstacle = store.path / "config" / "subscriptionGroup.json.tmp"
    obstacle.mkdir()
    join = {**JOIN, "group": "later"}
    for _ in range(2):
        answer = client.ask(**join, id=3)
        assert isinstance(answer, Error)
        assert answer.status == "SERVICE_NOT_AVAILABLE"
        assert "Is a directory; see its log, then try again" in answer.why
    obstacle.rmdir()
    assert isinstance(client.ask(**join, id=4), Joined)


def test_a_client_that_passes_nonsense_gets_the_error(store: StoreProcess) -> None:
    with Admin(store.path) as admin:
        with pytest.raises(IllegalType, match="queues must be a whole number, not str"):
            admin.create_topic("t", "four")  # type: ignore[arg-type]
        with pytest.raises(IllegalMessage, match=r"-1 queues: 1 to"):
            admin.create_topic("t", -1)
        with pytest.raises(IllegalMessage, match=r"at most 127"):
            admin.create_topic("x" * 500)
    link = Connection(store.path)
    with pytest.raises(IllegalMessage, match=r"Expected `int`, got `str` - at `\$.queues`"):
        link.request(Create("t", "four"))  # type: ignore[arg-type]
    with pytest.raises(IllegalMessage, match="there is no queue slot 2000000000"):
        link.request(Watch([0, 2_000_000_000]))
    with pytest.raises(IllegalMessage, match="there is no consumer group ü"):
        link.request(AskGroup("ü", 0))
    link.close()
