"""`silo status` shows the brokers of a store: what they did, and that they are gone."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from support.broker_requests import heart_beat, pull_fields, send_fields
from support.brokers import BrokerProcess
from support.commands import silo
from support.harness import StoreProcess, eventually
from support.name_servers import name_server
from support.remoting_client import RemotingClient

from silomq import Admin
from silomq.client.session import Connection
from silomq.shm import board
from silomq.shm._memory import Mapping
from silomq.shm.board import BoardWriter
from silomq.shm.protocol.admin_requests import AskBoard
from silomq.shm.protocol.figure_requests import FindBoard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BATCH = b"\0\0\0\x17" + bytes(12) + b"\0\0\0\1x\0\0"


def brokers(store: StoreProcess) -> list[dict[str, Any]]:
    """What `silo status --json` says of brokers."""
    found: list[dict[str, Any]] = json.loads(silo("status", "--json", store=store.path).stdout)[
        "brokers"
    ]
    return found


def sound(store: StoreProcess) -> list[dict[str, Any]]:
    """The same, by a session of the test's own, without those that have a problem."""
    with Admin(store.path) as admin:
        return [one for one in admin.status()["brokers"] if not one["problem"]]


def counts(broker: dict[str, Any]) -> dict[str, int]:
    return {one["request"]: one["count"] for one in broker["requests"]}


def awaited(store: StoreProcess, true: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The only broker's status, when it has become what is wanted."""

    def check() -> bool:
        found = sound(store)
        return len(found) == 1 and bool(true(found[0]))

    eventually(check, "the status shows it")
    return sound(store)[0]


def test_what_a_broker_did(tmp_path: Path) -> None:
    with (
        StoreProcess(tmp_path / "store") as store,
        BrokerProcess(store.path, listen="127.0.0.1:0") as broker,
        RemotingClient(broker.address) as client,
    ):
        _do_things(store, client)
        with RemotingClient(broker.address) as other:
            other.send_bytes(b"\xff" * 8)
            assert other.is_closed_within(10)
        found = awaited(store, lambda one: one["held_pulls"] and one["closed"])
        _check_counts(brokers(store)[0])
        assert (found["name"], found["pid"]) == ("broker-a", broker.running.pid)
        assert (found["listens"], found["told"]) == (broker.address, "127.0.0.1:10911")
        shown = silo("status", store=store.path).stdout.decode()
        for word in (broker.address, "SEND_BATCH_MESSAGE", "TOPIC_NOT_EXIST", "me", "CLUSTERING"):
            assert word in shown


def _do_things(store: StoreProcess, client: RemotingClient) -> None:
    """25 messages by 15 requests, a member, pulls, and what is refused."""
    short = dict(zip("abcdefghijkl", send_fields().values(), strict=True))
    bodies = {10: b"x", 310: b"x", 320: BATCH * 3}
    for code, body in bodies.items():
        for _ in range(5):
            fields = send_fields() if code == 10 else short
            assert client.ask(code, fields, body).code == 0
    assert client.ask(34, {}, heart_beat("me", "group")).code == 0
    store.await_dispatch()
    assert client.ask(11, pull_fields()).code == 0
    for _ in range(2):
        assert client.ask(11, pull_fields("missing")).code == 17
    assert client.ask(12345).code == 3
    client.send(11, pull_fields(offset=25, sysFlag=6, suspendTimeoutMillis=20_000))


def _check_counts(found: dict[str, Any]) -> None:
    assert counts(found) == {
        "SEND_MESSAGE": 5,
        "SEND_MESSAGE_V2": 5,
        "SEND_BATCH_MESSAGE": 5,
        "HEART_BEAT": 1,
        "PULL_MESSAGE": 4,
    }
    assert (found["messages_sent"], found["messages_pulled"]) == (25, 25)
    assert (found["connections"], found["held_pulls"]) == (1, 1)
    assert found["bytes_in"] > 2000
    assert found["bytes_out"] > 2000
    assert any(one["per_second"] > 0 for one in found["requests"])
    assert found["refused"] == [
        {"request": "PULL_MESSAGE", "answer": "TOPIC_NOT_EXIST", "count": 2},
        {"request": "others", "answer": "REQUEST_CODE_NOT_SUPPORTED", "count": 1},
    ]
    assert [(one["why"][:15], one["count"]) for one in found["closed"]] == [("a frame of N by", 1)]
    (group,) = found["groups"]
    assert (group["group"], group["model"], group["topics"]) == ("group", "CLUSTERING", ["orders"])
    (member,) = group["members"]
    assert (member["client_id"], member["language"]) == ("me", "JAVA")
    assert member["address"].startswith("127.0.0.1:")
    assert found["producer_groups"] == [{"group": "senders", "connections": 1}]


def test_what_the_fast_path_could_not_store(store: StoreProcess, client: RemotingClient) -> None:
    """The right to write is taken back behind the broker's back."""
    assert client.ask(10, send_fields("revoked"), b"x").code == 0
    with Admin(store.path) as admin:
        admin.update_topic("revoked", perm=4)
    assert client.ask(10, send_fields("revoked"), b"x").code != 0
    found = awaited(
        store,
        lambda one: [1 for each in one["refused"] if each["request"] == "SEND_MESSAGE"],
    )
    assert sum(one["count"] for one in found["refused"] if one["request"] == "SEND_MESSAGE") == 1


def test_a_member_with_names_of_its_choice(store: StoreProcess, client: RemotingClient) -> None:
    refused = client.ask(34, None, heart_beat("x" * 1025, "strange"))
    assert "length <= 1024" in str(refused.remark)
    request = client.command(34, None, heart_beat("\x1b[2J" + "x" * 1000, "strange"))
    request.language = "y" * 100_000
    client.send_bytes(request.encode())
    assert client.answer(request.opaque).code == 0
    found = awaited(store, lambda one: "strange" in [each["group"] for each in one["groups"]])
    (member,) = next(one for one in found["groups"] if one["group"] == "strange")["members"]
    assert member["language"] == "y" * 32
    assert member["client_id"] == "\x1b[2J" + "x" * 251


def test_name_servers(tmp_path: Path) -> None:
    with (
        StoreProcess(tmp_path / "store") as store,
        name_server(tmp_path) as good,
        BrokerProcess(store.path, f"namesrvAddr={good.address};127.0.0.1:1", listen="127.0.0.1:0"),
    ):
        found = awaited(
            store, lambda one: {x["state"] for x in one["name_servers"]} == {"registered", "failed"}
        )
        assert [(one["address"], one["state"]) for one in found["name_servers"]] == [
            (good.address, "registered"),
            ("127.0.0.1:1", "failed"),
        ]
        assert "refused" in found["name_servers"][1]["problem"]
        done = silo("status", store=store.path)
        assert b"name server 127.0.0.1:1 does not know broker broker-a" in done.stderr


def test_kills(tmp_path: Path) -> None:
    """A killed registry or store: the broker is shown again. A killed broker: it is gone."""
    with StoreProcess(tmp_path / "store") as store:
        assert brokers(store) == []
        with BrokerProcess(store.path, listen="127.0.0.1:0") as broker:
            first = awaited(store, lambda one: one["pid"] == broker.running.pid)
            store.replace("registry")
            again = awaited(store, lambda one: one["written_ms"] > first["written_ms"])
            assert again["session"] == first["session"]
            store.crash()
            store.start()
            again = awaited(store, lambda one: one["pid"] == broker.running.pid)
            assert again["session"] != first["session"]
            broker.kill()
            eventually(lambda: not sound(store), "it is gone")
            broker.start()
            awaited(store, lambda one: one["pid"] == broker.running.pid)
        eventually(lambda: not sound(store), "it is gone")


# -- boards that are no broker's


@contextlib.contextmanager
def board_of(store: StoreProcess) -> Iterator[tuple[Connection, int]]:
    """A session with a board, and the board's descriptor."""
    link = Connection(store.path, client="hostile")
    try:
        _, fds = link.ask(AskBoard())
        yield link, fds[0]
        link.drop(fds)
    finally:
        link.close()


def good_document(store: StoreProcess, **others: object) -> bytes:
    found = sound(store)[0]
    return json.dumps(
        {k: v for k, v in {**found, **others}.items() if k not in ("session", "uid", "problem")}
    ).encode()


def test_a_session_has_one_board(store: StoreProcess, broker: BrokerProcess) -> None:
    with board_of(store) as (link, fd):
        BoardWriter(fd).write(b"first")
        _, fds = link.ask(AskBoard())
        assert board.read(fds[0], 0) == b"first"
        link.drop(fds)
        found, fds = link.ask(FindBoard(link.session - 1))
        assert (found.session, len(fds)) == (link.session, 1)
        with pytest.raises(PermissionError):
            Mapping(fds[0], 0, board.SIZE, writable=True)
        link.drop(fds)
        none, fds = link.ask(FindBoard(link.session))
        assert (none.session, fds) == (0, [])
    del broker


def test_documents_that_are_none(store: StoreProcess, broker: BrokerProcess) -> None:
    awaited(store, lambda one: one["pid"] == broker.running.pid)
    with contextlib.ExitStack() as stack:
        links = []
        for document in (b"", b"{", b"[" * 60_000, b"\xff" * 1000, b"null", b"x" * board.MOST):
            link, fd = stack.enter_context(board_of(store))
            BoardWriter(fd).write(document)
            links.append(link)
        found = {one["session"]: one for one in brokers(store)}
        assert all(found.pop(link.session)["problem"] for link in links)
        assert [one["problem"] for one in found.values()] == [""]
        done = silo("status", store=store.path)
        for link in links:
            assert f"session {link.session} of user".encode() in done.stderr
        assert broker.address.encode() in done.stdout


def test_a_board_with_characters_that_a_terminal_obeys(
    store: StoreProcess, broker: BrokerProcess
) -> None:
    awaited(store, lambda one: one["pid"] == broker.running.pid)
    evil = "\x1b[2J\r\n\u202e\x9b31m[red]"
    group = {
        "group": evil, "model": evil, "member_count": 1, "topic_count": 1, "topics": [evil],
        "members": [{"client_id": evil, "language": evil, "address": evil}],
    }  # fmt: skip
    servers = [{"address": evil, "state": "failed", "problem": evil}]
    with board_of(store) as (_, fd):
        document = good_document(
            store, name=evil, cluster=evil, listens=evil, told=evil, groups=[group],
            closed=[{"why": evil, "count": 1}], name_servers=servers, written_ms=2**63 - 1,
            started_ms=2**63 - 1, refused=[{"request": evil, "answer": evil, "count": 2**63 - 1}],
            producer_groups=[{"group": evil, "connections": 1}],
        )  # fmt: skip
        BoardWriter(fd).write(document)
        for arguments in ((), ("--json",)):
            done = silo("status", *arguments, store=store.path)
            shown = (done.stdout + done.stderr).decode()
            assert "[red]" in shown
            assert not any(c in shown for c in "\x1b\r\u202e\x9b")


def test_a_board_that_changes_all_the_time(store: StoreProcess, broker: BrokerProcess) -> None:
    awaited(store, lambda one: one["pid"] == broker.running.pid)
    over = threading.Event()
    chance = random.Random(1)

    def scribble() -> None:
        while not over.is_set():
            at = chance.randrange(0, 64)
            memory[at : at + 8] = chance.randbytes(8)

    with board_of(store) as (link, fd):
        memory = memoryview(Mapping(fd, 0, board.SIZE))
        thread = threading.Thread(target=scribble)
        thread.start()
        try:
            for _ in range(5):
                began = time.monotonic()
                assert len(sound(store)) == 1
                assert time.monotonic() - began < 5
            found = {one["session"]: one for one in brokers(store)}
            assert found[link.session]["problem"]
        finally:
            over.set()
            thread.join()
