"""What RocketMQ read of a store (the lines of a dump), held against what is known of its messages;
and what is known of the messages that RocketMQ appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.checking.messages import check_found, queues_of
from support.checking.stored import Known, Stored
from support.twins import DELAY_LEVELS_MS

from silomq.store.names import SCHEDULE_TOPIC
from silomq.store.record.ids import Host
from silomq.store.record.javahash import java_string_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interop.rocketmq import Said


def messages_in(said: Said) -> list[Stored]:
    """Every message of a dump."""
    return [Stored.of_line(line) for line in said.all("msg")]


def appended_by_rocketmq(line: dict[str, Any]) -> Known:
    """A message that RocketMQ appended: a `put` line."""
    topic, queue, properties = line["topic"], line["queueId"], dict(line["properties"])
    if line["delay"]:
        properties |= {"DELAY": str(line["delay"]), "REAL_TOPIC": topic, "REAL_QID": str(queue)}
        topic, queue = SCHEDULE_TOPIC, line["delay"] - 1
    return Known(
        None,
        topic,
        queue,
        line["queueOffset"],
        int(line["msgId"][-16:], 16),
        line["msgId"],
        line["storeTimestamp"],
        line["bodySha256"],
        properties.get("UNIQ_KEY"),
        properties,
        line["flag"],
        line["reconsumeTimes"],
        str(Host.parse(line["storeHost"])),
        line["bornTimestamp"],
        str(Host.parse(line["bornHost"])),
    )


def check_dump(said: Said, known: Sequence[Known]) -> None:
    """RocketMQ read exactly the known messages, from log and queues, every field right."""
    assert said.all("wrong") == []
    assert said.one("end")["inconsistencies"] == 0
    store = said.one("store")
    assert (store["walkStop"], store["walkEnd"]) == (None, store["maxPhyOffset"])
    assert store["dispatchBehindBytes"] == 0
    check_found(messages_in(said), known)
    lines = {line["commitLogOffset"]: line for line in said.all("msg")}
    for k in known:
        _check_line(lines[k.physical_offset], k)
    _check_queues(said, known)


def _check_line(line: dict[str, Any], k: Known) -> None:
    """What a line says besides the message: the queue's entry, and what RocketMQ made of it."""
    assert k.properties is not None
    wanted = {
        "tags": k.properties.get("TAGS"),
        "keys": k.properties.get("KEYS"),
        "sysFlag": _sys_flag(line),
        "preparedTransactionOffset": 0,
        "inCq": True,
    }
    assert {name: line[name] for name in wanted} == wanted
    entry = {"offset": k.physical_offset, "size": line["storeSize"], "tagsCode": _tags_code(k)}
    assert line["cq"] == entry, line


def _sys_flag(line: dict[str, Any]) -> int:
    """No bits but those of the hosts: 0x10 for an IPv6 host of birth, 0x20 of the store."""
    born, store = (str(line[name]).startswith("[") for name in ("bornHost", "storeHost"))
    return 0x10 * born + 0x20 * store


def _tags_code(k: Known) -> int:
    assert k.properties is not None
    if k.topic == SCHEDULE_TOPIC:
        return k.store_timestamp + DELAY_LEVELS_MS[int(k.properties["DELAY"]) - 1]
    return java_string_hash(k.properties.get("TAGS", ""))


def _check_queues(said: Said, known: Iterable[Known]) -> None:
    queues = queues_of(known)
    lines = {(line["topic"], line["queueId"]): line for line in said.all("queue")}
    # RocketMQ makes a queue of every folder; one without messages is none of ours.
    assert {q for q, line in lines.items() if line["maxOffset"]} == queues.keys()
    for queue, messages in queues.items():
        line = lines[queue]
        ends = line["minOffset"], line["maxOffset"], line["read"]
        assert ends == (0, len(messages), len(messages))
        assert line["earliestTime"] == messages[0].store_timestamp
