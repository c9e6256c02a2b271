"""Messages and batches: what a broker takes, what it refuses, and what it says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interop.conformance.points import point
from interop.conformance.requests import (
    Answer,
    Code,
    batch,
    bodies,
    max_offset,
    pull,
    records,
    send,
    send_fields,
    short,
)
from interop.servers import CLUSTER
from support.harness import eventually

from silomq.store.record.ids import Host, decode_offset_message_id

if TYPE_CHECKING:
    from interop.servers import Servers
    from support.remoting_client import RemotingClient

    from silomq.broker.wire.command import Command
    from silomq.store.record.format import Record

#: Fields of an answer to a message that has been stored.
ANSWERED = {"msgId", "queueId", "queueOffset", "transactionId", "MSG_REGION", "TRACE_ON"}


def stored(client: RemotingClient, topic: str, count: int, queue: int = 0) -> list[Record]:
    """The first messages of a queue, as soon as there are so many."""
    eventually(lambda: max_offset(client, topic, queue) >= count, f"{count} messages in {topic}")
    found: list[Record] = []
    while len(found) < count:
        answer = pull(client, "sending", topic, len(found), queueId=queue, maxMsgNums=count)
        assert answer.code == Answer.SUCCESS, answer.remark
        found += records(answer)
    return found


@point(12)
def system_topics_and_bad_names_are_refused(servers: Servers) -> None:
    with servers.open.connect() as client:
        for topic in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT"):
            assert send(client, topic, b"x").code == Answer.NO_PERMISSION, topic
        for topic in ("bad topic!", "t" * 128, "with/slash"):
            assert send(client, topic, b"x").code == Answer.INVALID_PARAMETER, topic


@point(13)
def an_answer_says_where_the_message_is(servers: Servers) -> None:
    servers.open.create_topic("sending-places", queues=3)
    with servers.open.connect() as client:
        for queue in range(3):
            for offset in range(3):
                properties = {"UNIQ_KEY": f"{queue:016X}{offset:016X}", "a": "b"}
                answer = send(client, "sending-places", b"x", queue, properties=properties)
                assert answer.code == Answer.SUCCESS
                place = (answer.fields["queueId"], answer.fields["queueOffset"])
                assert place == (str(queue), str(offset))
                assert answer.fields["transactionId"] == properties["UNIQ_KEY"]
                host, _ = decode_offset_message_id(answer.fields["msgId"])
                assert host == Host.parse(servers.open.broker)
        for record in stored(client, "sending-places", 3, queue=2):
            assert record.properties.items() >= {"a": "b", "CLUSTER": CLUSTER}.items()
            assert record.properties["UNIQ_KEY"].startswith(f"{2:016X}")


@point(14)
def the_broker_chooses_a_queue(servers: Servers) -> None:
    servers.open.create_topic("sending-any", queues=4)
    with servers.open.connect() as client:
        chosen = [send(client, "sending-any", b"x", queue=-1) for _ in range(40)]
        assert {answer.code for answer in chosen} == {Answer.SUCCESS}
        queues = [int(answer.fields["queueId"]) for answer in chosen]
        assert set(queues) <= set(range(4))
        assert len(set(queues)) > 1
        for queue in range(4):
            stored(client, "sending-any", queues.count(queue), queue)


@point(15)
def a_queue_that_is_not_there_is_refused(servers: Servers) -> None:
    servers.open.create_topic("sending-queues", queues=2)
    with servers.open.connect() as client:
        for queue in (2, 100, 2**31 - 1):
            answer = send(client, "sending-queues", b"x", queue)
            assert answer.code == Answer.INVALID_PARAMETER
        assert send(client, "sending-queues", b"x", 1).fields["queueOffset"] == "0"
        assert max_offset(client, "sending-queues", 0) == 0


@point(17)
def a_batch_takes_offsets_that_follow_each_other(servers: Servers) -> None:
    servers.open.create_topic("sending-batch")
    sent = [(f"m{i}".encode(), {"UNIQ_KEY": f"{i:032X}", "n": str(i)}) for i in range(100)]
    with servers.open.connect() as client:
        send(client, "sending-batch", b"before")
        fields = send_fields("sending-batch", batch="true", properties={"UNIQ_KEY": "F" * 32})
        answer = client.ask(Code.SEND_BATCH_MESSAGE, short(fields), batch(sent))
        assert answer.code == Answer.SUCCESS, answer.remark
        assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("0", "1")
        ids = answer.fields["msgId"].split(",")
        found = stored(client, "sending-batch", 101)[1:]
        assert [record.offset_message_id for record in found] == ids
        assert [record.queue_offset for record in found] == list(range(1, 101))
        assert [(record.body, record.properties["n"]) for record in found] == [
            (body, properties["n"]) for body, properties in sent
        ]


@point(18)
def all_ways_to_send_are_answered_alike(servers: Servers) -> None:
    servers.open.create_topic("sending-ways")
    one = batch([(b"x", {"UNIQ_KEY": "A" * 32})])
    fields = send_fields("sending-ways", properties={"UNIQ_KEY": "B" * 32})
    with servers.open.connect() as client:
        answers = [
            client.ask(Code.SEND_MESSAGE, fields, b"x"),
            client.ask(Code.SEND_MESSAGE_V2, short(fields), b"x"),
            client.ask(Code.SEND_BATCH_MESSAGE, short({**fields, "batch": "true"}), one),
            client.ask(Code.SEND_MESSAGE_V2, short({**fields, "batch": "true"}), one),
        ]
        for offset, answer in enumerate(answers):
            assert answer.code == Answer.SUCCESS, answer.remark
            assert answer.fields.keys() >= ANSWERED - {"transactionId"}
            assert answer.fields["queueOffset"] == str(offset)
            assert len(answer.fields["msgId"]) == 32
        assert [record.body for record in stored(client, "sending-ways", 4)] == [b"x"] * 4


@point(19)
def a_body_may_have_the_greatest_size_but_no_more(servers: Servers) -> None:
    servers.open.create_topic("sending-large")
    most = int(servers.open.settings["maxMessageSize"])
    with servers.open.connect() as client:
        assert send(client, "sending-large", bytes(most + 1)).code == Answer.MESSAGE_ILLEGAL
        assert max_offset(client, "sending-large") == 0
        assert send(client, "sending-large", bytes(most)).code == Answer.SUCCESS
        (record,) = stored(client, "sending-large", 1)
        assert len(record.body) == most


@point(20)
def properties_have_a_greatest_size(servers: Servers) -> None:
    servers.open.create_topic("sending-properties")
    with servers.open.connect() as client:
        text = {"a": "x" * (32_768 - len("a\x01\x02"))}
        fields = send_fields("sending-properties", properties={})
        fields["properties"] = f"a\x01{text['a']}\x02"
        answer = client.ask(Code.SEND_MESSAGE_V2, short(fields), b"x")
        assert answer.code == Answer.MESSAGE_ILLEGAL
        assert max_offset(client, "sending-properties") == 0
        answer = send(client, "sending-properties", b"x", properties={"a": "x" * 32_000})
        assert answer.code == Answer.SUCCESS


@point(3)
def a_one_way_message_is_stored(servers: Servers) -> None:
    servers.open.create_topic("sending-one-way")
    with servers.open.connect() as client:
        told = client.tell(Code.SEND_MESSAGE_V2, short(send_fields("sending-one-way")), b"told")
        assert [record.body for record in stored(client, "sending-one-way", 1)] == [b"told"]
        assert told not in client.answers


@point(12)
def a_topic_without_permission_to_write(servers: Servers) -> None:
    if not servers.open.manners.refuses_unwritable:
        pytest.skip("this server takes messages to a topic that is not to be written")
    servers.open.create_topic("sending-read-only", perm=4)
    with servers.open.connect() as client:
        assert send(client, "sending-read-only", b"x").code == Answer.NO_PERMISSION


@point(18)
def refusals_name_the_region_too(servers: Servers) -> None:
    """Java's client reads the fields of every answer to a message, also of a refusal."""

    def check(answer: Command) -> None:
        assert answer.fields["MSG_REGION"]
        assert answer.fields["TRACE_ON"] in {"true", "false"}

    with servers.open.connect() as client:
        check(send(client, "sending-region", b"x"))
    with servers.strict.connect() as client:
        check(send(client, "sending-never", b"x"))


@point(18)
def what_a_message_says_is_kept(servers: Servers) -> None:
    servers.open.create_topic("sending-kept", queues=2)
    with servers.open.connect() as client:
        properties = {"UNIQ_KEY": "C" * 32, "KEYS": "k1 k2", "TAGS": "TagA", "own": "grün"}
        answer = send(
            client, "sending-kept", b"\0\xff", 1, properties=properties, flag=77,
            bornTimestamp=1_700_000_000_123,
        )  # fmt: skip
        assert answer.code == Answer.SUCCESS
        (record,) = stored(client, "sending-kept", 1, queue=1)
        assert (record.body, record.flag, record.queue_id) == (b"\0\xff", 77, 1)
        assert record.born_timestamp == 1_700_000_000_123
        assert record.properties.items() >= properties.items()
        assert record.born_host == Host.of(*client.socket.getsockname())
        assert record.store_host == Host.parse(servers.open.broker)
        assert bodies(pull(client, "sending", "sending-kept", 0, queueId=1)) == [b"\0\xff"]
