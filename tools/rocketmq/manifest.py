"""The manifest of a store: everything that it would serve, one JSON object a line.

The kinds, in this order: `store`, `blank` (end-of-file records), `queue`, `msg` (every record of
the log), `time` and `key` (one for each query). The form is that of manifests made with RocketMQ's
own classes. So two stores, or two programs, can be compared line by line.

By default `time` and `key` lines hold RocketMQ 4.4's answers. With `exact` they hold the right
ones; docs/tools.md says where the two differ.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import msgspec

from ...store.errors import Corrupt
from ...store.index import key_lookup
from ...store.record.properties import KEYS
from ..raw.files import BadInput
from .logs import Blank
from .view import StoreView, is_queued

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...store.record.format import Record
    from .queues import QueueView


class TimeQuery(msgspec.Struct, frozen=True):
    """Asks which queue offset belongs to a store time (epoch ms)."""

    topic: str
    queue_id: int
    timestamp: int

    @classmethod
    def parse(cls, text: str) -> TimeQuery:
        """From `topic,queue,ts`. Raises BadInput."""
        parts = text.rsplit(",", 2)
        try:
            topic, queue_id, timestamp = parts
            return cls(topic, int(queue_id), int(timestamp))
        except ValueError:
            raise BadInput(f"--time {text!a}: write TOPIC,QUEUE,TIMESTAMP") from None


class KeyQuery(msgspec.Struct, frozen=True):
    """Asks which messages of a topic have a key and were stored in [begin, end] (epoch ms)."""

    topic: str
    key: str
    most: int
    begin: int
    end: int

    @classmethod
    def parse(cls, text: str) -> KeyQuery:
        """From `topic,key,max,begin,end`; the key may hold commas. Raises BadInput."""
        topic, _, rest = text.partition(",")
        try:
            key, *numbers = rest.rsplit(",", 3)
            most, begin, end = map(int, numbers)
        except ValueError:
            raise BadInput(f"--key {text!a}: write TOPIC,KEY,MAX,BEGIN,END") from None
        return cls(topic, key, most, begin, end)


def manifest(
    view: StoreView,
    times: Iterable[TimeQuery] = (),
    keys: Iterable[KeyQuery] = (),
    *,
    exact: bool = False,
) -> Iterator[str]:
    """The manifest's lines, without line ends."""
    blanks, messages, walk_end, stopped = _walk(view)
    yield _line(
        {
            "kind": "store",
            "minPhyOffset": view.log.first,
            "maxPhyOffset": view.log.end,
            "walkEnd": walk_end,
            "walkStop": stopped,
            "messages": len(messages),
            "dispatchBehindBytes": 0,
            "checkpoint": view.checkpoint,
        }
    )
    for blank in blanks:
        yield _line({"kind": "blank", "commitLogOffset": blank.offset, "size": blank.size})
    served: dict[int, dict[str, int]] = {}
    for queue in view.sorted_queues():
        yield _line(_queue(view, queue, served))
    for offset in messages:
        record = view.log.record_at(offset)
        assert record is not None, offset
        data = view.log.bytes_at(offset, record.total_size)
        assert data is not None, offset
        yield _line(_message(offset, record, data, served.get(offset)))
    for time in times:
        yield _line(_time(view, time, exact=exact))
    for key in keys:
        yield _key(view, key, exact=exact)


def _line(values: dict[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"))


def _walk(view: StoreView) -> tuple[list[Blank], list[int], int, str | None]:
    """(end-of-file records, addresses of messages, where the walk ended, why it ended early or
    None).
    """
    blanks: list[Blank] = []
    messages: list[int] = []
    at = max(view.log.first, 0)
    try:
        for found in view.log.walk(at):
            if isinstance(found, Blank):
                blanks.append(found)
                at = found.offset + found.size
            else:
                messages.append(at)
                at += found.total_size
    except Corrupt as error:
        return blanks, messages, at, error.why
    return blanks, messages, at, None


def _queue(view: StoreView, queue: QueueView, served: dict[int, dict[str, int]]) -> dict[str, Any]:
    """A `queue` line. Entries whose records are in the log are added to `served` by address."""
    read = 0
    for entry in queue.entries():
        if view.log.bytes_at(entry.offset, entry.size) is not None:
            read += 1
            served[entry.offset] = {
                "offset": entry.offset,
                "size": entry.size,
                "tagsCode": entry.tags_code,
            }
    first = queue.entry(queue.min_offset)
    return {
        "kind": "queue",
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "minOffset": queue.min_offset,
        "maxOffset": queue.max_offset,
        "read": read,
        "earliestTime": view.log.store_time_at(first.offset, first.size) if first else -1,
        "maxPhysicOffset": queue.max_physic,
        "lastOffset": queue.last_record_end(),
    }


def _message(
    offset: int, record: Record, data: memoryview, entry: dict[str, int] | None
) -> dict[str, Any]:
    names = sorted(record.properties, key=lambda name: name.encode("utf-16-be"))
    values: dict[str, Any] = {
        "kind": "msg",
        "commitLogOffset": offset,
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "msgId": record.offset_message_id,
        "storeSize": record.total_size,
        "bodyCRC": record.body_crc,
        "sysFlag": record.sys_flag,
        "flag": record.flag,
        "bornTimestamp": record.born_timestamp,
        "storeTimestamp": record.store_timestamp,
        "bornHost": str(record.born_host),
        "storeHost": str(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_transaction_offset,
        "tags": record.tags,
        "keys": record.properties.get(KEYS),
        "properties": {name: record.properties[name] for name in names},
        "bodyLen": len(record.body),
        "bodySha256": hashlib.sha256(record.body).hexdigest(),
        "recordSha256": hashlib.sha256(data).hexdigest(),
        "propertiesRawHex": record.properties_raw.hex(),
        "inCq": is_queued(record),
    }
    if is_queued(record):
        values["cq"] = entry
    return values


def _time(view: StoreView, query: TimeQuery, *, exact: bool) -> dict[str, Any]:
    queue = view.queues.get((query.topic, query.queue_id))
    offset = 0
    if queue is not None:
        search = queue.first_since if exact else queue.nearest_in_time
        offset = search(view.log, query.timestamp)
    return {
        "kind": "time",
        "topic": query.topic,
        "queueId": query.queue_id,
        "ts": query.timestamp,
        "offset": offset,
    }


def _key(view: StoreView, query: KeyQuery, *, exact: bool) -> str:
    files = view.index.files
    asked = key_lookup.KeyQuery(query.topic, query.key, query.most, query.begin, query.end)
    found = key_lookup.rocketmq_offsets(files, asked, key_lookup.MOST_RESULTS)
    if exact:
        matches = key_lookup.matching(files, asked, view.log.record_at)
        offsets = [record.physical_offset for record in matches]
    else:
        offsets = [o for o in sorted(found) if view.log.record_at(o) is not None]
    last_ms, last_offset = view.index.last_update()
    head = _line(
        {
            "kind": "key",
            "topic": query.topic,
            "key": query.key,
            "maxNum": query.most,
            "begin": query.begin,
            "end": query.end,
        }
    )
    tail = _line({"indexLastUpdateTimestamp": last_ms, "indexLastUpdatePhyoffset": last_offset})
    # Lists have Java's form, with a space behind each comma.
    lists = f'"offsets":{json.dumps(offsets)},"indexPhyOffsets":{json.dumps(found)}'
    return f"{head[:-1]},{lists},{tail[1:]}"
