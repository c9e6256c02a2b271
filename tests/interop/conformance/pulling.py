"""Pulls: which messages they find, how long they are held, and what the others are answered."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import (
    COMMIT,
    LITE,
    SUBSCRIPTION,
    Answer,
    Code,
    beat,
    bodies,
    commit,
    committed,
    hold,
    max_offset,
    pull,
    pull_fields,
    records,
    send,
    subscription,
)
from support.harness import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interop.servers import Server, Servers
    from support.remoting_client import RemotingClient


def filled(server: Server, client: RemotingClient, topic: str, tags: Sequence[str]) -> None:
    """A topic of one queue with a message for each tag, m0, m1, and so on."""
    server.create_topic(topic)
    for i, tag in enumerate(tags):
        answer = send(client, topic, f"m{i}".encode(), properties={"TAGS": tag, "n": str(i)})
        assert answer.code == Answer.SUCCESS, answer.remark
    eventually(lambda: max_offset(client, topic) == len(tags), "all are dispatched")


@point(21)
def a_message_wakes_a_held_pull(servers: Servers) -> None:
    servers.open.create_topic("pulling-wake")
    taken = []
    with servers.open.connect() as consumer, servers.open.connect() as producer:
        for offset in range(5):
            held = hold(consumer, "pulling-wake", offset, 20_000)
            consumer.listen(0.1)
            assert held not in consumer.answers
            began = time.monotonic()
            send(producer, "pulling-wake", b"m%d" % offset)
            answer = consumer.answer(held)
            taken.append(time.monotonic() - began)
            assert bodies(answer) == [b"m%d" % offset]
            assert answer.fields["nextBeginOffset"] == str(offset + 1)
    assert min(taken) < 0.1, "a busy machine holds one of them up, not all"


@point(21)
def a_message_of_another_tag_wakes_nobody(servers: Servers) -> None:
    servers.open.create_topic("pulling-sleep")
    with servers.open.connect() as consumer, servers.open.connect() as producer:
        held = hold(consumer, "pulling-sleep", 0, 20_000, subscription="TagA")
        send(producer, "pulling-sleep", b"x", properties={"TAGS": "TagB"})
        consumer.listen(1)
        if held in consumer.answers:  # the server has looked at all held pulls just now
            answer = consumer.answer(held)
            assert answer.code == Answer.PULL_RETRY_IMMEDIATELY
            assert answer.fields["nextBeginOffset"] == "1"
            held = hold(consumer, "pulling-sleep", 1, 20_000, subscription="TagA")
        send(producer, "pulling-sleep", b"y", properties={"TAGS": "TagA"})
        assert bodies(consumer.answer(held)) == [b"y"]


@point(22)
def a_pull_is_held_as_long_as_the_client_says(servers: Servers) -> None:
    servers.open.create_topic("pulling-held")
    with servers.open.connect() as client:
        send(client, "pulling-held", b"x")
        eventually(lambda: max_offset(client, "pulling-held") == 1, "the message is dispatched")
        began = time.monotonic()
        answer = client.answer(hold(client, "pulling-held", 1, 3_000))
        taken = time.monotonic() - began
        assert answer.code == Answer.PULL_NOT_FOUND
        assert answer.fields["nextBeginOffset"] == "1"
        assert 2.9 < taken < 8.5, "RocketMQ looks at held pulls each five seconds"
        assert pull(client, "holders", "pulling-held", 1).code == Answer.PULL_NOT_FOUND


@point(23, 24)
def a_pull_outside_the_queue_is_sent_where_to_go(servers: Servers) -> None:
    with servers.open.connect() as client:
        filled(servers.open, client, "pulling-bounds", ["a"] * 3)
        for offset, code, following in (
            (2, Answer.SUCCESS, 3),
            (3, Answer.PULL_NOT_FOUND, 3),
            (4, Answer.PULL_OFFSET_MOVED, 3),
            (1_000_000, Answer.PULL_OFFSET_MOVED, 3),
            (-1, Answer.PULL_OFFSET_MOVED, 0),
        ):
            answer = pull(client, "bounds", "pulling-bounds", offset)
            assert answer.code == code, offset
            assert answer.fields["nextBeginOffset"] == str(following), offset
            assert (answer.fields["minOffset"], answer.fields["maxOffset"]) == ("0", "3")
            assert answer.fields["suggestWhichBrokerId"] == "0"
            assert bool(answer.body) == (code == Answer.SUCCESS)
        held = hold(client, "pulling-bounds", 4, 20_000)
        assert client.answer(held, 2).code == Answer.PULL_OFFSET_MOVED


@point(15, 29)
def what_is_not_there_cannot_be_pulled(servers: Servers) -> None:
    with servers.open.connect() as client:
        servers.open.create_topic("pulling-one", queues=1)
        assert pull(client, "g", "pulling-none", 0).code == Answer.TOPIC_NOT_EXIST
        for queue in (1, -1):
            answer = pull(client, "g", "pulling-one", 0, queueId=queue)
            assert answer.code == Answer.INVALID_PARAMETER, queue
        servers.open.create_topic("pulling-unreadable", perm=2)
        assert pull(client, "g", "pulling-unreadable", 0).code == Answer.NO_PERMISSION
    with servers.strict.connect() as client:
        answer = pull(client, "nobody", "SELF_TEST_TOPIC", 0)
        assert answer.code == Answer.SUBSCRIPTION_GROUP_NOT_EXIST


@point(25)
def a_pull_without_its_subscription_needs_a_heart_beat(servers: Servers) -> None:
    group, topic = "pulling-beats", "pulling-known"
    bare = {"sysFlag": 0, "subscription": None}
    with servers.open.connect() as client:
        filled(servers.open, client, topic, ["TagA", "TagB"])
        assert pull(client, group, topic, 0, **bare).code == Answer.SUBSCRIPTION_NOT_EXIST
        beat(client, "c", group, subscription(topic, "TagA", version=5))
        assert bodies(pull(client, group, topic, 0, **bare, subVersion=5)) == [b"m0"]
        answer = pull(client, group, topic, 0, **bare, subVersion=6)
        assert answer.code == Answer.SUBSCRIPTION_NOT_LATEST
        beat(client, "c", group, subscription(topic, "TagB", version=6))
        assert bodies(pull(client, group, topic, 0, **bare, subVersion=6)) == [b"m1"]
        beat(client, "c", group, subscription(topic, "TagA", version=5))
        answer = pull(client, group, topic, 0, **bare, subVersion=6)
        assert bodies(answer) == [b"m1"], "an older subscription changes nothing"


@point(26)
def tags_filter(servers: Servers) -> None:
    with servers.open.connect() as client:
        tags = ["TagA", "TagB", "TagC"] * 20
        filled(servers.open, client, "pulling-tags", tags)
        for text, wanted in (
            ("TagA", {"TagA"}),
            ("TagA || TagC", {"TagA", "TagC"}),
            ("*", set(tags)),
            ("", set(tags)),
        ):
            found, offset = [], 0
            while offset < len(tags):
                answer = pull(client, "tags", "pulling-tags", offset, subscription=text)
                assert answer.code in {Answer.SUCCESS, Answer.PULL_RETRY_IMMEDIATELY}
                found += [record.properties["TAGS"] for record in records(answer)]
                assert int(answer.fields["nextBeginOffset"]) > offset
                offset = int(answer.fields["nextBeginOffset"])
            assert found == [tag for tag in tags if tag in wanted]
        answer = pull(client, "tags", "pulling-tags", 0, subscription="TagX")
        assert answer.code == Answer.PULL_RETRY_IMMEDIATELY
        assert int(answer.fields["nextBeginOffset"]) > 0
        assert answer.body == b""


@point(27)
def tags_of_the_same_hash_reach_the_client(servers: Servers) -> None:
    with servers.open.connect() as client:
        filled(servers.open, client, "pulling-hashes", ["Aa", "BB", "C", "Aa"])
        answer = pull(client, "hashes", "pulling-hashes", 0, subscription="Aa")
        assert bodies(answer) == [b"m0", b"m1", b"m3"]
        assert answer.fields["nextBeginOffset"] == "4"


@point(28)
def sql_filters_where_it_is_allowed(servers: Servers) -> None:
    sql = {"expressionType": "SQL92", "subscription": "n >= 3 AND n < 5"}
    with servers.open.connect() as client:
        filled(servers.open, client, "pulling-sql", ["a"] * 8)
        assert bodies(pull(client, "sql", "pulling-sql", 0, **sql)) == [b"m3", b"m4"]
        if servers.open.manners.refuses_bad_filters:
            answer = pull(client, "sql", "pulling-sql", 0, **{**sql, "subscription": "n >= AND"})
            assert answer.code == Answer.SUBSCRIPTION_PARSE_FAILED
    for server, text, code in (
        (servers.open, "n >= 3", Answer.SUCCESS),
        (servers.open, "n >= AND", Answer.SUBSCRIPTION_PARSE_FAILED),
        (servers.strict, "n >= 3", Answer.SYSTEM_ERROR),
    ):
        data = {**subscription("SELF_TEST_TOPIC", text), "expressionType": "SQL92"}
        asked = {"clientId": "c", "group": "sql", "namespace": "", "subscriptionData": data}
        with server.connect() as client:
            answer = client.ask(Code.CHECK_CLIENT_CONFIG, body=json.dumps(asked).encode())
            assert answer.code == code, text


def wait_for_offset(client: RemotingClient, topic: str, offset: int) -> None:
    """Waits until the group "offsets" has committed this offset."""
    eventually(lambda: committed(client, "offsets", topic) == offset, "it is committed", 5)


@point(33)
def offsets_are_kept(servers: Servers) -> None:
    with servers.open.connect() as client:
        filled(servers.open, client, "pulling-offsets", ["a"] * 9)
        servers.open.create_topic("pulling-empty")
        servers.open.create_group("offsets")
        assert committed(client, "offsets", "pulling-empty") is None
        assert committed(client, "offsets", "pulling-offsets") in {0, None}
        place = {"consumerGroup": "offsets", "topic": "pulling-offsets", "queueId": 0}
        for offset in (7, 3):  # they may go backwards
            client.tell(Code.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": offset})
            wait_for_offset(client, "pulling-offsets", offset)
        assert commit(client, "offsets", "pulling-offsets", 4) == Answer.SUCCESS
        assert committed(client, "offsets", "pulling-offsets") == 4
        flag = SUBSCRIPTION | COMMIT
        pull(client, "offsets", "pulling-offsets", 8, sysFlag=flag, commitOffset=5)
        assert committed(client, "offsets", "pulling-offsets") == 5
        pull(client, "offsets", "pulling-offsets", 8, commitOffset=6)
        assert committed(client, "offsets", "pulling-offsets") == 5, "bit 1 was not set"


@point(49)
def a_lite_pull_is_a_pull(servers: Servers) -> None:
    with servers.open.connect() as client:
        filled(servers.open, client, "pulling-lite", ["a"] * 3)
        fields = pull_fields("lite", "pulling-lite", 1, sysFlag=SUBSCRIPTION | LITE)
        for code in (Code.LITE_PULL_MESSAGE, Code.PULL_MESSAGE):
            assert bodies(client.ask(code, fields)) == [b"m1", b"m2"]


@point(26)
def a_pull_takes_no_more_than_it_asks_for(servers: Servers) -> None:
    with servers.open.connect() as client:
        filled(servers.open, client, "pulling-few", ["a"] * 5)
        answer = pull(client, "few", "pulling-few", 1, maxMsgNums=2)
        assert bodies(answer) == [b"m1", b"m2"]
        assert answer.fields["nextBeginOffset"] == "3"
