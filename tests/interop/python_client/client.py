"""The Python client of RocketMQ, driven by the tests: one request as JSON in the first argument,
one JSON object a line as the answer. See clients.py for the members of both.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from typing import Any

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer, RecvMessage
from rocketmq.ffi import MessageModel, _CConsumeStatus

_printing = threading.Lock()


def say(kind: str, **members: object) -> None:
    at = int(time.time() * 1000)
    with _printing:
        print(json.dumps({"kind": kind, "at": at, **members}), flush=True)


def made(topic: str, one: dict[str, Any]) -> Message:
    result = Message(topic)
    result.set_body(one["body"])
    if "tags" in one:
        result.set_tags(one["tags"])
    if "keys" in one:
        result.set_keys(" ".join(one["keys"]))
    for name, value in one.get("properties", {}).items():
        result.set_property(name, value)
    if "delay" in one:
        result.set_delay_time_level(one["delay"])
    return result


def say_sent(body: str, result: Any, later: int = 0) -> None:
    # This client does not tell the queue.
    say(
        "sent", body=body, status=int(result.status), id=result.msg_id,
        offset=result.offset + later,
    )  # fmt: skip


def sign(client: Any, wanted: dict[str, Any]) -> None:
    """Has the client sign its requests, if the test says so."""
    if "credentials" in wanted:
        client.set_session_credentials(*wanted["credentials"], "channel")


def send(wanted: dict[str, Any]) -> None:
    producer = Producer(wanted["group"])
    producer.set_namesrv_addr(wanted["names"])
    sign(producer, wanted)
    producer.start()
    topic = wanted["topics"][0]
    batch = [one for one in wanted["messages"] if one.get("how") == "batch"]
    answers = []
    for one in wanted["messages"]:
        message, how = made(topic, one), one.get("how")
        if how == "oneway":
            producer.send_oneway(message)
            say("sent", body=one["body"])
        elif how == "async":
            answers.append((message, send_async(producer, message, one["body"])))
        elif "shard" in one:
            say_sent(one["body"], producer.send_orderly(message, one["shard"]))
        elif how != "batch":
            say_sent(one["body"], producer.send_sync(message))
    if batch:
        result = producer.send_batch([made(topic, one) for one in batch])
        for number, one in enumerate(batch):
            say_sent(one["body"], result, number)
    for _, answered in answers:
        answered.wait()
    producer.shutdown()


def send_async(producer: Producer, message: Message, body: str) -> threading.Event:
    answered = threading.Event()

    def succeeded(result: Any) -> None:
        say_sent(body, result)
        answered.set()

    def failed(error: Exception) -> None:
        print(error, file=sys.stderr)
        answered.set()  # the missing line tells the test

    producer.send_async(message, succeeded, failed)
    return answered


def say_received(wanted: dict[str, Any], one: Any) -> None:
    found = {name: one.get_property(name) for name in wanted["properties"]}
    say(
        "received", topic=one.topic, body=text(one.body), tags=text(one.tags),
        keys=text(one.keys), queue=one.queue_id, offset=one.queue_offset,
        times=one.reconsume_times,
        properties={name: text(value) for name, value in found.items() if value},
    )  # fmt: skip


def text(data: bytes | None) -> str:
    return (data or b"").decode()


def consume(wanted: dict[str, Any]) -> None:
    model = MessageModel.BROADCASTING if wanted["broadcast"] else MessageModel.CLUSTERING
    member = PushConsumer(wanted["group"], wanted["orderly"], model)
    member.set_namesrv_addr(wanted["names"])
    sign(member, wanted)
    deliveries: Counter[str] = Counter()

    def listen(_: object, handle: int) -> int:
        one = RecvMessage(handle)
        say_received(wanted, one)
        # Where order is kept, the client does not count how often it gave a message.
        times = deliveries[one.id] if wanted["orderly"] else one.reconsume_times
        deliveries[one.id] += 1
        refused = times < wanted["refuse"]
        return int(_CConsumeStatus.RECONSUME_LATER if refused else _CConsumeStatus.CONSUME_SUCCESS)

    for topic in wanted["topics"]:
        member.subscribe(topic, lambda _: None, wanted["filter"])
    # A listener is to raise an exception for a message that it refuses. What the client makes of
    # it depends on the release of Python. So this one gives the status itself.
    member._register_callback(listen)
    member.start()
    say("ready")
    sys.stdin.read()
    member.shutdown()


def pull(wanted: dict[str, Any]) -> None:
    member = PullConsumer(wanted["group"])
    member.set_namesrv_addr(wanted["names"])
    member.start()
    say("ready")
    for one in member.pull(wanted["topics"][0], wanted["filter"]):
        say_received(wanted, one)
    member.shutdown()


def main() -> None:
    wanted = json.loads(sys.argv[1])
    {"send": send, "consume": consume, "pull": pull}[wanted["do"]](wanted)
    say("done")
    os._exit(0)  # the destructors of the native client would shut it down once more


if __name__ == "__main__":
    main()
