"""Messages from stores into Parquet, and back into a running store.

An export has a folder for each topic and day of storing (UTC), and every column of the source. An
import restores queue, body, flags, time of birth, producer, tries and properties of each message,
with its UNIQ_KEY. Offsets and the store time are new, because the store sets them. Messages of one
queue keep their order.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation, Window
from pyspark.sql import functions as fn

from ...client.admin.admin import Admin
from ...client.producing._sender import send_encoded, session_of
from ...client.producing.message_properties import plan_light_queues
from ...client.producing.producer import Producer
from ...store.errors import IllegalMessage
from ...store.names import DLQ_PREFIX, RETRY_PREFIX, allows_light_queues, is_system_topic
from ...store.record.format import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, encode_record
from ...store.record.ids import Host
from ...store.record.properties import (
    CRC32,
    DELAY,
    MULTI_QUEUE_OFFSET,
    REAL_QID,
    REAL_TOPIC,
    encode_properties,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

#: The exported columns that an import needs.
SCHEMA: Final = (
    "topic string, queueId int, physicalOffset long, storeTimestamp timestamp, "
    "bornTimestamp timestamp, properties map<string,string>, body binary, sysFlag int, flag int, "
    "bornHost string, reconsumeTimes int, messageId string, store string"
)
#: The columns that an import needs of the messages that the store holds already.
PRESENT: Final = "topic string, messageId string"
_SENT: Final = "topic string, queueId int, messages long, bytes long"
_TRANSACTION: Final = 0xC
#: Properties of a delivered delayed message. A copy without them is not delayed again.
_DELAYED: Final = (
    DELAY, REAL_TOPIC, REAL_QID,
    "TIMER_OUT_MS", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC",
)  # fmt: skip
_BATCH_ROWS: Final = 4096


def export(
    df: DataFrame, path: str, *, compact: bool = False, mode: str = "errorifexists"
) -> list[dict[str, Any]]:
    """Writes messages to Parquet at `path`, in folders topic=.../day=.... With `compact`, keeps
    only the last of the messages of a topic with the same KEYS, and all messages without KEYS.
    `mode` is Spark's: errorifexists, append, overwrite. Returns a row of path and messages.
    """
    rows = latest(df) if compact else df
    counted = Observation("export")
    day = fn.date_format("storeTimestamp", "yyyy-MM-dd")
    seen = rows.withColumn("day", day).observe(counted, fn.count("*").alias("messages"))
    seen.write.partitionBy("topic", "day").mode(mode).parquet(path)
    return [{"path": path, "messages": counted.get["messages"]}]


def latest(df: DataFrame) -> DataFrame:
    """The message that was stored last among those of a topic with the same KEYS, and all without
    KEYS.
    """
    key = fn.when(fn.size("keys") > 0, fn.concat_ws(" ", "keys"))
    order = Window.partitionBy("topic", "_key").orderBy(
        fn.desc("storeTimestamp"), fn.desc("physicalOffset"), fn.desc("store")
    )
    rows = df.withColumn("_key", key)
    keyed = rows.where(fn.col("_key").isNotNull()).withColumn("_place", fn.row_number().over(order))
    last = keyed.where(fn.col("_place") == 1).drop("_key", "_place")
    return last.unionByName(rows.where(fn.col("_key").isNull()).drop("_key"))


def read_export(spark: SparkSession, path: str) -> DataFrame:
    """The messages that `export` wrote, with the columns of SCHEMA. With a schema Spark does not
    guess types from names of topics.
    """
    return spark.read.schema(SCHEMA).parquet(path)


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import. `queues` has rows of topic, queueId, messages, bytes. `skipped` has
    the number of messages left out, by reason.
    """

    queues: list[dict[str, Any]]
    skipped: dict[str, int]


def importable(df: DataFrame) -> DataFrame:
    """The messages that a client may send: none of the store's own topics, no half messages."""
    topics = [row.topic for row in df.select("topic").distinct().collect()]
    own = [topic for topic in topics if is_system_topic(topic)]
    kind = fn.col("sysFlag").bitwiseAND(_TRANSACTION)
    return df.where(
        ~fn.col("topic").isin(own) & ~kind.isin(TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
    )


def import_(
    df: DataFrame,
    store: str | os.PathLike[str],
    *,
    present: DataFrame | None = None,
    producers: int | None = None,
) -> Imported:
    """Sends messages with the columns of SCHEMA to the running store in the folder `store`.

    Makes missing topics, and adds queues to those that have too few. Leaves out messages that no
    client may send, and those whose topic and messageId are in `present`. If `present` has what the
    store holds already, an interrupted import can be repeated. `producers` tasks send at a time
    (default: as many as Spark has cores, at most 16).

    Raises StoreError. A message that the store refuses ends the import as a Spark error that names
    the reason.
    """
    total = df.count()
    rows = importable(df)
    allowed = rows.count()
    wanted = rows
    if present is not None:
        ids = ["topic", "messageId"]
        wanted = rows.join(present.select(*ids), ids, "left_anti")
    _make_topics(wanted, store)
    spark = df.sparkSession
    tasks = producers or min(16, spark.sparkContext.defaultParallelism)
    order = ("topic", "queueId", "storeTimestamp", "store", "physicalOffset")
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    sent = (
        wanted.select(*names)
        .withColumn("bornMs", fn.unix_millis("bornTimestamp"))
        .repartition(tasks, "topic", "queueId")
        .sortWithinPartitions(*order)
        .mapInArrow(functools.partial(_send, str(store)), _SENT)
        .groupBy("topic", "queueId")
        .agg(fn.sum("messages").alias("messages"), fn.sum("bytes").alias("bytes"))
    )
    queues = [row.asDict() for row in sent.orderBy("topic", "queueId").collect()]
    skipped = {
        "of the store's own topics, or half messages": total - allowed,
        "in the store already": allowed - sum(row["messages"] for row in queues),
    }
    return Imported(queues, {why: count for why, count in skipped.items() if count})


def _make_topics(df: DataFrame, store: str | os.PathLike[str]) -> None:
    """Makes the topics with the queues that the messages need, or adds queues to them."""
    needed = df.groupBy("topic").agg((fn.max("queueId") + 1).alias("queues")).collect()
    with Admin(store) as admin:
        there = {topic.topic: topic for topic in admin.topics()}
        for topic, queues in needed:
            if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                continue
            known = there.get(topic)
            if known is None:
                admin.create_topic(topic, queues)
            elif known.write_queues < queues:
                admin.update_topic(
                    topic, read_queues=max(known.read_queues, queues), write_queues=queues
                )


def _send(store: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Sends one task's messages in their order. Yields rows of _SENT."""
    import pyarrow as pa

    messages: Counter[tuple[str, int]] = Counter()
    size: Counter[tuple[str, int]] = Counter()
    with Producer(store) as producer:
        for batch in batches:
            for start in range(0, len(batch), _BATCH_ROWS):
                for row in batch.slice(start, _BATCH_ROWS).to_pylist():
                    _send_one(producer, row)
                    queue = row["topic"], row["queueId"]
                    messages[queue] += 1
                    size[queue] += len(row["body"] or b"")
    rows = [
        {"topic": topic, "queueId": queue_id, "messages": count, "bytes": size[topic, queue_id]}
        for (topic, queue_id), count in messages.items()
    ]
    if rows:
        kinds = (("topic", pa.string()), ("queueId", pa.int32()))
        counts = (("messages", pa.int64()), ("bytes", pa.int64()))
        yield pa.RecordBatch.from_pylist(rows, schema=pa.schema([*kinds, *counts]))


def _open_light_queues(producer: Producer, topic: str, properties: dict[str, str]) -> bytes:
    """Opens the light queues that a message names. Returns the property pair with room for its
    offsets there: none if the store has no light queues, or if RocketMQ alone allows these.
    """
    session = session_of(producer)
    if not (session.config.light and allows_light_queues(topic)):
        return b""
    try:
        light = plan_light_queues(properties)
    except IllegalMessage:
        return b""
    return session.open_light_queues(topic, light) if light else b""


def _send_one(producer: Producer, row: dict[str, Any]) -> None:
    topic = row["topic"]
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            session_of(producer).open_retry(topic.removeprefix(prefix), dead=prefix == DLQ_PREFIX)
    properties = dict(row["properties"] or ())
    for name in (*_DELAYED, CRC32, MULTI_QUEUE_OFFSET):
        properties.pop(name, None)
    config = session_of(producer).config
    room = _open_light_queues(producer, topic, properties)
    record = encode_record(
        topic=topic.encode(),
        body=row["body"] or b"",
        properties=encode_properties(properties) + room,
        queue_id=row["queueId"],
        flag=row["flag"],
        sys_flag=row["sysFlag"],
        born_timestamp=row["bornMs"],
        born_host=Host.parse(row["bornHost"]),
        store_host=Host.unpack(config.store_host),
        reconsume_times=row["reconsumeTimes"],
        record_crc=config.append_crc,
        max_message_size=config.max_message_size,
    )
    # A sync for each record would take a thousand times as long.
    key = row["messageId"]
    send_encoded(producer, topic, row["queueId"], record, unique_key=key, wait_store=False)
