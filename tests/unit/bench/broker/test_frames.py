"""Requests of the generator: each is a request that a broker understands, and no two are equal."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from silomq.bench.broker import _load
from silomq.bench.broker.frames import FIRST_OPAQUE, PULLED_AT_ONCE, pulls, sends
from silomq.broker.wire.command import ANSWER, Command, decode
from silomq.broker.wire.frames import FrameReader
from silomq.store.record.format import encode_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answer = Callable[[Command], bytes]
    Start = Callable[[Answer], "Echo"]


class Echo:
    """A server at one end of a socket pair. It answers by a function, and keeps what was asked."""

    def __init__(self, answer: Answer) -> None:
        self.client, self._server = socket.socketpair()
        self.asked: list[Command] = []
        self._answer = answer
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        reader = FrameReader()
        with self._server:
            while piece := self._server.recv(1 << 16):
                reader.feed(piece)
                while (frame := reader.take()) is not None:
                    self.asked.append(decode(frame))
                    if not (data := self._answer(self.asked[-1])):
                        return
                    # In pieces, so that an answer comes in several.
                    self._server.sendall(data[:7])
                    self._server.sendall(data[7:])

    def close(self) -> None:
        self.client.close()
        self._thread.join()


@pytest.fixture
def echo() -> Iterator[Start]:
    started: list[Echo] = []

    def start(answer: Answer) -> Echo:
        started.append(Echo(answer))
        return started[-1]

    yield start
    for one in started:
        one.close()


def success(request: Command) -> bytes:
    return Command(0, {"msgId": "x"}, opaque=request.opaque, flag=ANSWER).encode()


def test_sends_go_to_the_queues_in_turn_and_have_keys_of_their_own(echo: Start) -> None:
    server = echo(success)
    what = sends("orders", 100, 4, "F" * 20)
    assert _load.run(what, [server.client.fileno()], 5, 20, 5000) > 0
    assert (what.asked, what.answered, what.messages, what.failed) == (20, 20, 20, 0)
    assert [one.opaque for one in server.asked] == list(range(FIRST_OPAQUE, FIRST_OPAQUE + 20))
    assert [one.fields["e"] for one in server.asked] == [str(n % 4) for n in range(20)]
    keys = [one.fields["i"].split("\x01")[1].split("\x02")[0] for one in server.asked]
    assert keys == [f"{'F' * 20}{n:012X}" for n in range(20)]
    assert {(one.code, one.body) for one in server.asked} == {(310, b"x" * 100)}


def test_a_run_goes_on_where_the_one_before_ended(echo: Start) -> None:
    server = echo(success)
    what = sends("orders", 1, 8, "0" * 20)
    _load.run(what, [server.client.fileno()], 2, 10, 5000)
    _load.run(what, [server.client.fileno()], 2, 15, 5000)
    assert (what.messages, len(server.asked)) == (15, 15)


def test_refused_sends_are_no_messages(echo: Start) -> None:
    def refuse(request: Command) -> bytes:
        code = 2 if request.fields["e"] == "1" else 0
        return Command(code, opaque=request.opaque, flag=ANSWER).encode()

    what = sends("orders", 1, 2, "0" * 20)
    _load.run(what, [echo(refuse).client.fileno()], 4, 10, 5000)
    assert (what.answered, what.messages, what.failed, what.code) == (10, 5, 5, 2)


def records(queue: int, first: int, count: int) -> bytes:
    """Records as a pull brings them."""
    made = []
    for offset in range(first, first + count):
        record = bytearray(encode_record(b"orders", b"body", b"", queue_id=queue, flag=0))
        record[20:28] = offset.to_bytes(8, "big")
        made.append(bytes(record))
    return b"".join(made)


def answer_pull(request: Command, *, less: int = 0, queue: int = 0, first: int = 0) -> bytes:
    fields = request.fields
    body = records(
        int(fields["queueId"]) + queue, int(fields["queueOffset"]) + first, PULLED_AT_ONCE - less
    )
    return Command(0, {}, body, request.opaque, ANSWER).encode()


def test_pulls_go_through_all_queues_from_their_beginning(echo: Start) -> None:
    server = echo(answer_pull)
    what = pulls("orders", 2, 6)
    _load.run(what, [server.client.fileno()], 3, 6, 5000)
    assert (what.messages, what.failed) == (6 * PULLED_AT_ONCE, 0)
    places = [(one.fields["queueId"], int(one.fields["queueOffset"])) for one in server.asked]
    assert places == [(queue, offset) for offset in (0, 32, 64) for queue in ("0", "1")]


def test_a_pull_that_brings_fewer_goes_on_behind_them(echo: Start) -> None:
    server = echo(lambda request: answer_pull(request, less=12))
    what = pulls("orders", 1, 2)
    _load.run(what, [server.client.fileno()], 1, 2, 5000)
    assert (what.messages, what.answered, what.failed) == (2 * PULLED_AT_ONCE, 2, 0)
    places = [int(one.fields["queueOffset"]) for one in server.asked]
    assert places == [0, 20, 32, 52]


@pytest.mark.parametrize("wrong", [{"less": 32}, {"less": -1}, {"queue": 1}, {"first": 1}])
def test_a_pull_that_brings_other_messages_has_failed(echo: Start, wrong: dict[str, int]) -> None:
    what = pulls("orders", 1, 2)
    server = echo(lambda request: answer_pull(request, **wrong))
    _load.run(what, [server.client.fileno()], 1, 2, 5000)
    assert (what.answered, what.messages, what.failed) == (2, 0, 2)


def test_a_pull_that_is_answered_twice_counts_once(echo: Start) -> None:
    first: list[bytes] = []

    def again(request: Command) -> bytes:
        first.append(answer_pull(request))
        return first[0]

    what = pulls("orders", 1, 2)
    _load.run(what, [echo(again).client.fileno()], 1, 2, 5000)
    assert (what.messages, what.failed) == (PULLED_AT_ONCE, 1)


def test_a_connection_that_ends_is_said(echo: Start) -> None:
    server = echo(lambda _: b"")
    with pytest.raises(ConnectionError):
        _load.run(sends("orders", 1, 1, "0" * 20), [server.client.fileno()], 1, 3, 5000)


def test_a_server_that_says_nothing_is_said() -> None:
    client, server = socket.socketpair()
    with client, server, pytest.raises(TimeoutError, match="0 of 3 answers"):
        _load.run(sends("orders", 1, 1, "0" * 20), [client.fileno()], 1, 3, 20)


def test_lone_sends_have_a_time_each(echo: Start) -> None:
    what = sends("orders", 128, 8, "A" * 20)
    taken = _load.lone(what, echo(success).client.fileno(), 50)
    assert len(taken) == 50
    assert min(taken) > 0
    assert (what.messages, what.failed) == (50, 0)
