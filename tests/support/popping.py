"""A consumer that pops over a plain socket, and keeps receipts as RocketMQ's clients do."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.broker_requests import pop_fields, send_fields
from support.harness import eventually

from silomq.store.record.fields import head_of
from silomq.store.record.format import decode_record

if TYPE_CHECKING:
    from support.remoting_client import RemotingClient

    from silomq.broker.wire.command import Command
    from silomq.store.record.format import Record

FOUND, NO_MESSAGE, FULL, NOT_FOUND = 0, 208, 209, 210
POP, ACK, PEEK, CHANGE, NOTIFY, COUNT, BATCH_ACK = (
    *(200050, 200051, 200052, 200053, 200054, 200055, 200151),
)


@dataclass(frozen=True)
class Message:
    """A message that was popped, and its receipt."""

    record: Record
    receipt: str
    queue_id: int
    offset: int
    topic: str

    @property
    def text(self) -> str:
        return self.record.body.decode()

    @property
    def times(self) -> int:
        return self.record.reconsume_times


def send(
    client: RemotingClient, topic: str, *bodies: str, queue_id: int = 0, tag: str = ""
) -> None:
    """Sends messages, one by one, until consumers find them. A new topic has four queues."""
    end = 0
    for body in bodies:
        properties = f"UNIQ_KEY\x01K{body}\x02" + (f"TAGS\x01{tag}\x02" if tag else "")
        fields = send_fields(topic, queueId=queue_id, defaultTopicQueueNums=4)
        answer = client.ask(10, {**fields, "properties": properties}, body.encode())
        assert answer.code == 0, answer.remark
        end = int(answer.fields["queueOffset"]) + 1
    queue = {"topic": topic, "queueId": queue_id}
    eventually(lambda: int(client.ask(30, queue).fields["offset"]) >= end, "they are dispatched")


class Popper:
    """A member of `group` that pops `topic`; further arguments are fields of its pops."""

    def __init__(self, client: RemotingClient, topic: str, group: str, **fields: object) -> None:
        self.client = client
        self.topic = topic
        self.group = group
        self.fields = fields

    def ask(self, **fields: object) -> Command:
        asked = {**pop_fields(self.topic, self.group), **self.fields, **fields}
        return self.client.ask(POP, asked)

    def pop(self, **fields: object) -> list[Message]:
        """The messages of one pop, none if it finds none."""
        answer = self.ask(**fields)
        return self.messages(answer)

    def messages(self, answer: Command) -> list[Message]:
        """The messages of an answer, with receipts as RocketMQ's client makes them."""
        if answer.code == NOT_FOUND:
            return []
        assert answer.code == FOUND, (answer.code, answer.remark)
        starts, offsets = {}, {}
        for entry in answer.fields["startOffsetInfo"].split(";"):
            mark, queue_id, first = entry.split(" ")
            starts[mark, int(queue_id)] = first
        for entry in answer.fields["msgOffsetInfo"].split(";"):
            mark, queue_id, listed = entry.split(" ")
            offsets[mark, int(queue_id)] = [int(one) for one in listed.split(",")]
        found, at = [], 0
        while at < len(answer.body):
            size = head_of(answer.body, at).total_size
            record = decode_record(answer.body[at : at + size], check_crc=False)
            at += size
            own = record.properties.get("POP_CK")
            if own is None:
                offset, key = record.queue_offset, ("0", record.queue_id)
                assert offset in offsets[key]
                times = f"{answer.fields['popTime']} {answer.fields['invisibleTime']}"
                revive = answer.fields["reviveQid"]
                own = f"{starts[key]} {times} {revive} 0 broker-a {record.queue_id} {offset}"
            found.append(Message(record, own, record.queue_id, record.queue_offset, self.topic))
        return found

    def named(self, message: Message) -> dict[str, object]:
        """The fields of an acknowledgement."""
        mark = message.receipt.split(" ")[4]
        real = {"0": self.topic, "1": f"%RETRY%{self.group}_{self.topic}"}[mark]
        return {
            "consumerGroup": self.group, "topic": real, "queueId": message.queue_id,
            "extraInfo": message.receipt, "offset": message.offset,
        }  # fmt: skip

    def ack(self, *messages: Message) -> None:
        """Acknowledges messages one by one."""
        for message in messages:
            answer = self.client.ask(ACK, self.named(message))
            assert answer.code == 0, (answer.code, answer.remark)

    def change(self, message: Message, invisible_ms: int) -> Command:
        """Gives a message another time."""
        return self.client.ask(CHANGE, {**self.named(message), "invisibleTime": invisible_ms})

    def changed(self, message: Message, answer: Command) -> Message:
        """The message with the receipt that the answer of `change` makes."""
        parts = message.receipt.split(" ")
        parts[0] = str(message.offset)
        parts[1:4] = (answer.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
        return Message(
            message.record, " ".join(parts), message.queue_id, message.offset, message.topic
        )

    def batch_ack(self, messages: list[Message]) -> Command:
        """Acknowledges messages as the proxy does: a bit set for each lease."""
        entries: dict[tuple[str, ...], int] = {}
        for message in messages:
            first, popped, invisible, revive, mark, _, queue_id, _ = message.receipt.split(" ")
            key = (first, popped, invisible, revive, mark, queue_id)
            entries[key] = entries.get(key, 0) | 1 << message.offset - int(first)
        acks = [
            {
                "c": self.group, "t": self.topic, "r": mark, "so": int(first), "pt": int(popped),
                "it": int(invisible), "rq": int(revive), "q": int(queue_id),
                "b": base64.b64encode(mask.to_bytes(8, "little")).decode(),
            }
            for (first, popped, invisible, revive, mark, queue_id), mask in entries.items()
        ]  # fmt: skip
        body = json.dumps({"brokerName": "broker-a", "acks": acks}).encode()
        return self.client.ask(BATCH_ACK, {}, body)

    def offset(self, queue_id: int = 0) -> int:
        """The group's offset in a queue."""
        asked = {"consumerGroup": self.group, "topic": self.topic, "queueId": queue_id}
        answer = self.client.ask(14, asked)
        assert answer.code == 0, answer.remark
        return int(answer.fields["offset"])


def texts(messages: list[Message]) -> list[str]:
    """The bodies of messages."""
    return [message.text for message in messages]


def numbered(count: int, begin: int = 0) -> list[str]:
    """Bodies in their order."""
    return [f"m{number:03}" for number in range(begin, begin + count)]


def until_found(popper: Popper, **fields: object) -> list[Message]:
    """The next messages, which must come in time."""
    found: list[Message] = []

    def look() -> bool:
        found.extend(popper.pop(**fields))
        return bool(found)

    eventually(look, "messages come again")
    return found


def address_of(client: RemotingClient) -> str:
    """The address of the broker."""
    host, port = client.socket.getpeername()[:2]
    return f"{host}:{port}"
