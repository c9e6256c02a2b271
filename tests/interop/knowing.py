"""What a test knows about the messages in a store, and holds against what is read from it: by
RocketMQ (lines of a dump) and by our own consumers.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crash.checking import await_dispatch, read_topic
from interop.sending import Sent, message_of

from silomq.store.record.javahash import java_string_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from interop.rocketmq import Said
    from support.harness import StoreProcess

OUR_HOST = "127.0.0.1:10911"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
#: RocketMQ's delays of levels 1 to 18, in seconds.
DELAYS_S = (1, 5, 10, 30, *(60 * m for m in range(1, 11)), 1200, 1800, 3600, 7200)
assert len(DELAYS_S) == 18
Queue = tuple[str, int]


@dataclass(frozen=True)
class Known:
    """One stored message: all that must be read back. `born` and `born_host` None: not known."""

    place: int
    topic: str
    queue: int
    queue_offset: int
    msg_id: str
    stored_ms: int
    sha: str
    properties: dict[str, str]
    flag: int
    reconsumed: int
    store_host: str
    born_ms: int | None
    born_host: str | None

    @property
    def keys(self) -> list[str]:
        """What the index leads from."""
        unique = self.properties.get("UNIQ_KEY")
        return [*([unique] if unique else []), *self.properties.get("KEYS", "").split()]

    @property
    def tags_code(self) -> int:
        if self.topic == SCHEDULE_TOPIC:
            return self.stored_ms + 1000 * DELAYS_S[int(self.properties["DELAY"]) - 1]
        return java_string_hash(self.properties.get("TAGS", ""))


def of_ours(sent: Sent, ack: Sequence[Any]) -> Known:
    """A message of our producer and what our store answered: a row of a sender's report."""
    sequence, queue_offset, place, stored_ms, unique, msg_id = ack
    assert sequence == sent.sequence
    properties = {**sent.properties, "UNIQ_KEY": unique}
    if sent.tags is not None:
        properties["TAGS"] = sent.tags
    if sent.keys:
        properties["KEYS"] = " ".join(sent.keys)
    return Known(
        place, sent.topic, sent.queue, queue_offset, msg_id, stored_ms, sent.sha, properties,
        sent.flag, 0, OUR_HOST, sent.born, None,
    )  # fmt: skip


def of_report(path: Path) -> list[Known]:
    """All that a sender was answered."""
    report = json.loads(path.read_text())
    return [of_ours(message_of(report["producer"], ack[0]), ack) for ack in report["acks"]]


def of_theirs(line: dict[str, Any]) -> Known:
    """A message that RocketMQ appended: a `put` line."""
    topic, queue, properties = line["topic"], line["queueId"], dict(line["properties"])
    if line["delay"]:
        properties |= {"DELAY": str(line["delay"]), "REAL_TOPIC": topic, "REAL_QID": str(queue)}
        topic, queue = SCHEDULE_TOPIC, line["delay"] - 1
    return Known(
        int(line["msgId"][-16:], 16), topic, queue, line["queueOffset"], line["msgId"],
        line["storeTimestamp"], line["bodySha256"], properties, line["flag"],
        line["reconsumeTimes"], line["storeHost"], line["bornTimestamp"], line["bornHost"],
    )  # fmt: skip


def unanswered(said: Said, known: Iterable[Known], counts: dict[int, int]) -> list[Known]:
    """The messages of a dump that were sent (`counts`: how many by each producer) and, because the
    store was killed, not answered. Asserts that each is such a one and is there once.
    """
    places = {k.place for k in known}
    known_shas = {k.sha for k in known}
    strangers = [line for line in said.all("msg") if line["commitLogOffset"] not in places]
    if not strangers:
        return []
    sent = {m.sha: m for p, count in counts.items() for m in _first_of(p, count)}
    found = []
    for line in strangers:
        assert line["bodySha256"] in sent, f"nobody sent this: {line}"
        assert line["bodySha256"] not in known_shas, f"is there twice: {line}"
        known_shas.add(line["bodySha256"])
        message = sent[line["bodySha256"]]
        ack = (
            message.sequence, line["queueOffset"], line["commitLogOffset"],
            line["storeTimestamp"], line["properties"]["UNIQ_KEY"], line["msgId"],
        )  # fmt: skip
        found.append(of_ours(message, ack))
    return found


def _first_of(producer: int, count: int) -> Iterable[Sent]:
    """The first messages of a producer."""
    return (message_of(producer, sequence) for sequence in range(count))


def check_dump(said: Said, known: Sequence[Known]) -> None:
    """RocketMQ read exactly the known messages, from log and queues, every field right."""
    assert said.all("wrong") == []
    assert said.one("end")["inconsistencies"] == 0
    store = said.one("store")
    assert (store["walkStop"], store["walkEnd"]) == (None, store["maxPhyOffset"])
    assert store["dispatchBehindBytes"] == 0
    lines = {line["commitLogOffset"]: line for line in said.all("msg")}
    assert len(lines) == len(said.all("msg"))
    places = {k.place for k in known}
    assert len(places) == len(known), "two messages in one place are known"
    assert not places - lines.keys(), f"{len(places - lines.keys())} messages are not there"
    assert not lines.keys() - places, f"{len(lines.keys() - places)} messages nobody knows of"
    for k in known:
        line = lines[k.place]
        wanted = {
            "topic": k.topic, "queueId": k.queue, "queueOffset": k.queue_offset,
            "msgId": k.msg_id, "storeTimestamp": k.stored_ms, "bodySha256": k.sha,
            "properties": k.properties, "flag": k.flag, "reconsumeTimes": k.reconsumed,
            "tags": k.properties.get("TAGS"), "keys": k.properties.get("KEYS"),
            "storeHost": k.store_host, "sysFlag": 0, "preparedTransactionOffset": 0,
            "inCq": True,
        }  # fmt: skip
        assert {name: line[name] for name in wanted} == wanted
        entry = {"offset": k.place, "size": line["storeSize"], "tagsCode": k.tags_code}
        assert line["cq"] == entry, line
        _check_birth(k, line["bornTimestamp"], line["bornHost"])
    _check_queues(said, known)


def _check_birth(k: Known, born_ms: int, born_host: str) -> None:
    if k.born_ms is None:
        assert k.stored_ms - 60_000 < born_ms <= k.stored_ms, (k, born_ms)
    else:
        assert born_ms == k.born_ms, k
    if k.born_host is None:
        assert born_host.startswith("127.0.0.1:"), k
    else:
        assert born_host == k.born_host, k


def queues_of(known: Iterable[Known]) -> dict[Queue, list[Known]]:
    """Each queue's messages in order, which must have no gap."""
    queues: dict[Queue, list[Known]] = defaultdict(list)
    for k in sorted(known, key=lambda k: k.queue_offset):
        queues[k.topic, k.queue].append(k)
    for queue, messages in queues.items():
        assert [k.queue_offset for k in messages] == list(range(len(messages))), queue
    return queues


def _check_queues(said: Said, known: Iterable[Known]) -> None:
    queues = queues_of(known)
    lines = {(line["topic"], line["queueId"]): line for line in said.all("queue")}
    # RocketMQ makes a queue of every folder; one without messages is none of ours.
    assert {q for q, line in lines.items() if line["maxOffset"]} == queues.keys()
    for queue, messages in queues.items():
        line = lines[queue]
        assert (line["minOffset"], line["maxOffset"], line["read"]) == (
            0, len(messages), len(messages)
        )  # fmt: skip
        assert line["earliestTime"] == messages[0].stored_ms


def check_consumed(store: StoreProcess, known: Sequence[Known], *, start: int = 0) -> None:
    """Our consumers read exactly the known messages, every field right; with `start` only those
    from that place in the log on are looked at.
    """
    await_dispatch(store)
    by_place = {k.place: k for k in known if k.place >= start}
    for topic in sorted({k.topic for k in known}):
        for view in read_topic(store.path, topic):
            if view.physical_offset < start:
                continue
            k = by_place.pop(view.physical_offset)
            flag = view.flag if view.flag < 1 << 31 else view.flag - (1 << 32)
            found = (
                view.topic, view.queue_id, view.queue_offset, view.offset_message_id,
                view.store_timestamp, hashlib.sha256(view.body).hexdigest(), view.properties,
                flag, view.reconsume_times, str(view.store_host),
            )  # fmt: skip
            assert found == (
                k.topic, k.queue, k.queue_offset, k.msg_id, k.stored_ms, k.sha, k.properties,
                k.flag, k.reconsumed, k.store_host,
            )  # fmt: skip
            assert int.from_bytes(view.record[20:28], "big") == k.queue_offset
            _check_birth(k, view.born_timestamp, str(view.born_host))
    assert not by_place, f"our consumers do not find {len(by_place)} messages"
