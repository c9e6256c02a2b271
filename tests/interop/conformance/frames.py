"""Frames, opaques and forms: what a broker does with commands before it looks at what they ask."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import (
    Answer,
    Code,
    beat,
    hold,
    pull_fields,
    send_fields,
    subscription,
)
from support.remoting_client import Disconnected, RemotingClient

from silomq.broker.wire.command import ANSWER, MAX_FRAME, Command, Serialization

if TYPE_CHECKING:
    from interop.servers import Servers

MAX_OF = {"topic": "SELF_TEST_TOPIC", "queueId": "0"}
#: RocketMQ looks at the first 12 bytes of a connection before it reads frames.
FILLER = bytes(64)


@point(1)
def an_answer_repeats_the_opaque(servers: Servers) -> None:
    for opaque in (7, 0, 2**31 - 1, -5):
        with servers.open.connect() as client:
            client.send_bytes(Command(Code.GET_MAX_OFFSET, MAX_OF, opaque=opaque).encode())
            answer = client.answer(opaque)
            assert (answer.code, answer.flag & ANSWER) == (Answer.SUCCESS, ANSWER)
            assert answer.fields["offset"] == "0"


@point(2)
def a_held_pull_delays_nobody(servers: Servers) -> None:
    servers.open.create_topic("frames-held")
    with servers.open.connect() as client:
        held = hold(client, "frames-held", 0, 4_000)
        began = time.monotonic()
        opaques = [client.send(Code.GET_MAX_OFFSET, MAX_OF) for _ in range(20)]
        for opaque in opaques:
            assert client.answer(opaque).code == Answer.SUCCESS
        assert time.monotonic() - began < 2
        assert held not in client.answers
        assert client.answer(held).code == Answer.PULL_NOT_FOUND


@point(3)
def a_one_way_request_gets_no_answer(servers: Servers) -> None:
    with servers.open.connect() as client:
        told = [
            client.tell(Code.GET_MAX_OFFSET, MAX_OF),
            client.tell(Code.SEND_MESSAGE, send_fields("no topic!"), b"x"),
            client.tell(Code.PULL_MESSAGE, pull_fields("nobody", "frames-none", 0)),
            client.tell(9999),
        ]
        assert client.ask(Code.GET_MAX_OFFSET, MAX_OF).code == Answer.SUCCESS
        client.listen(1)
        assert not set(told) & set(client.answers)


@point(4)
def an_unknown_code_is_answered(servers: Servers) -> None:
    for address in (servers.open.broker, servers.open.names):
        with RemotingClient(address) as client:
            assert client.ask(9999).code == Answer.REQUEST_CODE_NOT_SUPPORTED
            assert client.ask(9999).code == Answer.REQUEST_CODE_NOT_SUPPORTED


@point(5)
def a_bad_frame_ends_the_connection(servers: Servers) -> None:
    good = b"{}"
    frames = {
        "longer than 16 MiB": struct.pack(">iI", MAX_FRAME + 1, len(good)) + good,
        "a header longer than its frame": struct.pack(">iI", 4 + len(good), 200) + good,
        "a serialisation that nobody has": struct.pack(">iI", 4 + 2, 7 << 24 | 2) + good,
        "a header that is no JSON": struct.pack(">iI", 4 + 12, 12) + b"no JSON here",
    }
    for address in (servers.open.broker, servers.open.names):
        for why, frame in frames.items():
            with RemotingClient(address) as client:
                client.send_bytes(frame + FILLER)
                assert client.is_closed_within(5), why
    with servers.open.connect() as client:
        assert client.ask(Code.GET_MAX_OFFSET, MAX_OF).code == Answer.SUCCESS


@point(5)
def a_frame_may_arrive_in_pieces(servers: Servers) -> None:
    with servers.open.connect() as client:
        for piece in (1, 5):
            request = client.command(Code.GET_MAX_OFFSET, MAX_OF)
            client.send_bytes(request.encode(), piece)
            assert client.answer(request.opaque).code == Answer.SUCCESS
        two = [client.command(Code.GET_MAX_OFFSET, MAX_OF) for _ in range(2)]
        client.send_bytes(b"".join(one.encode() for one in two))
        assert [client.answer(one.opaque).code for one in two] == [0, 0]


@point(6)
def both_forms_are_read(servers: Servers) -> None:
    with servers.open.connect() as client:
        for form in (Serialization.ROCKETMQ, Serialization.JSON, Serialization.ROCKETMQ):
            client.form = form
            answer = client.ask(Code.GET_MAX_OFFSET, MAX_OF)
            assert (answer.code, answer.fields["offset"]) == (Answer.SUCCESS, "0")
            if servers.open.manners.answers_in_kind or form is Serialization.JSON:
                assert answer.serialization is form
            assert client.ask(9999).code == Answer.REQUEST_CODE_NOT_SUPPORTED


@point(7, slow=True)
def an_idle_connection_is_closed_after_two_minutes(servers: Servers) -> None:
    with servers.open.connect() as idle, servers.open.connect() as busy:
        assert idle.ask(Code.GET_MAX_OFFSET, MAX_OF).code == Answer.SUCCESS
        began = time.monotonic()
        closed_after = None
        while closed_after is None and time.monotonic() - began < 150:
            beat(busy, "busy", "frames-busy", subscription("SELF_TEST_TOPIC"))
            try:
                idle.listen(5)
            except (Disconnected, ConnectionError):
                closed_after = time.monotonic() - began
        assert closed_after is not None
        assert 115 < closed_after < 140
        beat(busy, "busy", "frames-busy", subscription("SELF_TEST_TOPIC"))
