"""Messages that a consumer could not consume: they come back later, and end as dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import (
    Answer,
    Code,
    beat,
    bodies,
    max_offset,
    pull,
    records,
    send,
    subscription,
)
from support.harness import eventually

if TYPE_CHECKING:
    from interop.servers import Server, Servers
    from support.remoting_client import RemotingClient

    from silomq.store.record.format import Record


def first_message(server: Server, client: RemotingClient, topic: str) -> Record:
    """The message of a new topic that has one."""
    server.create_topic(topic)
    send(client, topic, b"bad", properties={"UNIQ_KEY": "D" * 32, "TAGS": "TagA"})
    eventually(lambda: max_offset(client, topic) == 1, "it is dispatched")
    (record,) = records(pull(client, "looking", topic, 0))
    return record


def send_back(client: RemotingClient, group: str, record: Record, **more: object) -> int:
    """Sends a message back; the code of the answer."""
    fields = {
        "offset": record.physical_offset, "group": group, "delayLevel": 0,
        "originMsgId": record.properties.get("UNIQ_KEY"), "originTopic": record.topic,
        "unitMode": "false", "maxReconsumeTimes": 16, **more,
    }  # fmt: skip
    return client.ask(Code.CONSUMER_SEND_MSG_BACK, fields).code


def nth_message(client: RemotingClient, topic: str, offset: int, timeout_s: float) -> Record:
    """A message of queue 0 at an offset, which must come in time."""
    eventually(
        lambda: max_offset(client, topic) > offset, f"message {offset} of {topic}", timeout_s
    )
    (record,) = records(pull(client, "looking", topic, offset))
    return record


@point(38)
def a_message_comes_back_later_each_time(servers: Servers) -> None:
    group = "back-again"
    delays = servers.open.delays_s()
    with servers.open.connect() as client:
        beat(client, "c", group, subscription("back-again"))
        record = origin = first_message(servers.open, client, "back-again")
        for times in (1, 2):
            assert send_back(client, group, record) == Answer.SUCCESS
            delay_s = delays[2 + times - 1]  # level 3, then level 4
            sent_ms = record.store_timestamp
            record = nth_message(client, f"%RETRY%{group}", times - 1, delay_s + 5)
            assert record.reconsume_times == times
            assert record.body == b"bad"
            assert record.properties["RETRY_TOPIC"] == "back-again"
            assert record.properties["ORIGIN_MESSAGE_ID"]
            assert record.properties["TAGS"] == "TagA"
            assert record.born_timestamp == origin.born_timestamp
            assert record.store_timestamp - sent_ms > delay_s * 1000 - 500


@point(38)
def a_client_may_choose_the_delay(servers: Servers) -> None:
    with servers.open.connect() as client:
        beat(client, "c", "back-chosen", subscription("back-chosen"))
        record = first_message(servers.open, client, "back-chosen")
        assert send_back(client, "back-chosen", record, delayLevel=1) == Answer.SUCCESS
        again = nth_message(client, "%RETRY%back-chosen", 0, servers.open.delays_s()[0] + 5)
        assert again.reconsume_times == 1


@point(39)
def a_message_that_fails_too_often_is_a_dead_letter(servers: Servers) -> None:
    with servers.open.connect() as client:
        for name, how in (("back-level", {"delayLevel": -1}), ("back-most", {})):
            beat(client, "c", name, subscription(name))
            record = first_message(servers.open, client, name)
            most = 0 if name == "back-most" else 16
            code = send_back(client, name, record, maxReconsumeTimes=most, **how)
            assert code == Answer.SUCCESS
            dead = nth_message(client, f"%DLQ%{name}", 0, 5)
            assert (dead.body, dead.queue_id) == (b"bad", 0)
            assert dead.properties["RETRY_TOPIC"] == name
            assert max_offset(client, f"%RETRY%{name}") == 0


@point(39)
def a_retry_that_is_sent_too_often_is_a_dead_letter(servers: Servers) -> None:
    """Orderly consumers, and others when a message cannot be sent back, send it themselves."""
    group = "back-sent"
    with servers.open.connect() as client:
        beat(client, "c", group, subscription("back-sent"))
        for times, topic in ((2, f"%RETRY%{group}"), (3, f"%DLQ%{group}")):
            properties = {"UNIQ_KEY": f"{times:032X}", "RETRY_TOPIC": "back-sent"}
            answer = send(
                client, f"%RETRY%{group}", b"t%d" % times, properties=properties,
                reconsumeTimes=times, maxReconsumeTimes=2,
            )  # fmt: skip
            assert answer.code == Answer.SUCCESS, answer.remark
            assert nth_message(client, topic, 0, 5).body == b"t%d" % times


@point(38)
def what_cannot_be_sent_back_is_refused(servers: Servers) -> None:
    with servers.open.connect() as client:
        beat(client, "c", "back-refused", subscription("back-refused"))
        record = first_message(servers.open, client, "back-refused")
        code = send_back(client, "back-refused", record, offset=2**40)
        assert code == Answer.SYSTEM_ERROR
        assert bodies(pull(client, "looking", "back-refused", 0)) == [b"bad"]
    with servers.strict.connect() as client:
        code = send_back(client, "nobody", record)
        assert code == Answer.SUBSCRIPTION_GROUP_NOT_EXIST


@point(43)
def a_delayed_message_comes_in_time(servers: Servers) -> None:
    servers.open.create_topic("back-delayed")
    with servers.open.connect() as client:
        properties = {"UNIQ_KEY": "E" * 32, "DELAY": "3"}
        answer = send(client, "back-delayed", b"late", properties=properties)
        assert (answer.code, answer.fields["queueId"]) == (Answer.SUCCESS, "0")
        assert max_offset(client, "back-delayed") == 0
        delay_s = servers.open.delays_s()[2]
        record = nth_message(client, "back-delayed", 0, delay_s + 5)
        taken_s = (record.store_timestamp - record.born_timestamp) / 1000
        assert abs(taken_s - delay_s) < 1
