"""Whether a store is consistent, over all of its messages and all of its files.

`audit` checks messages through DataFrames: places in queues, and ids that occur twice. It checks
files in tasks, with the checks of `silo verify`: records with their CRCs, and queue entries and
index entries against the log in both directions. Last it compares the offsets of consumer groups
with the queues. Every finding says store, file and offset: an address in the log for the log's
files, a position in the file otherwise.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

from ...store.disk.paths import COMMIT_LOG
from ...store.record.format import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from .audit_files import FileFindings, check_files
from .audit_progress import check_progress
from .rebuild import deleted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ...conf.settings import Settings

#: The columns that an audit needs; a source that reads only these does less work.
SCHEMA: Final = (
    "topic string, queueId int, queueOffset long, physicalOffset long, storeTimestamp timestamp, "
    "bornTimestamp timestamp, messageId string, reconsumeTimes int, sysFlag int, store string"
)
FINDING: Final = "check string, store string, file string, offset long, what string"
_QUEUE: Final = "store string, topic string, queueId int, first long, last long, messages long"
_PROGRESS: Final = (
    "store string, topic string, group string, queueId int, offset long, first long, end long, "
    "lag long, missed long"
)
_TRANSACTION: Final = 0xC
#: After this many findings of one check the rest are only counted.
MOST: Final = 1000


@dataclass
class Audit:
    """The result of an audit. `findings` are rows of FINDING. `queues` has a row for each queue,
    `progress` one for each group in each queue. `counts` says how many things were checked.
    `unnamed` is the number of findings beyond MOST of a check.
    """

    findings: list[dict[str, Any]] = field(default_factory=list)
    queues: list[dict[str, Any]] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    unnamed: int = 0

    @property
    def sound(self) -> bool:
        return not self.findings


def audit(spark: SparkSession, df: DataFrame, stores: Mapping[str, Settings]) -> Audit:
    """Audits stopped stores, by folder, with the settings that give the sizes of their files. `df`
    must have the columns of SCHEMA and all whole messages of the stores, whatever else is damaged.
    Raises BadInput for a folder that is no store.
    """
    found = Audit()
    size = _log_file_size(stores)
    gone = {store: deleted(store) for store in stores}
    rows = queued(df, gone)
    _take(found, misplaced(rows, size))
    _take(found, twice(df, size))
    found.queues = [row.asDict() for row in queue_ends(rows).collect()]
    for store, settings in stores.items():
        files: FileFindings = check_files(spark, store, settings)
        found.findings += files.findings
        found.counts += files.counts
        found.notes += files.notes
        ends = _ends(found.queues, store, files.ends)
        progress, wrong = check_progress(store, ends)
        found.progress += progress
        found.findings += wrong
    found.findings.sort(key=lambda row: (row["store"], row["file"], row["offset"], row["what"]))
    return found


def _take(found: Audit, wrong: DataFrame) -> None:
    """Adds the first MOST findings of a check to `found` and counts the rest."""
    rows = [row.asDict() for row in wrong.orderBy("store", "file", "offset").take(MOST + 1)]
    if len(rows) > MOST:
        rows.pop()
        found.unnamed += wrong.count() - MOST
    found.findings += rows


def queued(df: DataFrame, gone: Mapping[str, Mapping[str, int]]) -> DataFrame:
    """The messages that have a place in a queue: no half messages, no rollbacks, none of a deleted
    topic. `gone` has, by store and topic, the log address below which records belong to the deleted
    topic.
    """
    kind = fn.col("sysFlag").bitwiseAND(_TRANSACTION)
    rows = df.where(~kind.isin(TRANSACTION_PREPARED, TRANSACTION_ROLLBACK))
    for store, topics in gone.items():
        for topic, below in topics.items():
            nobodys = (
                (fn.col("store") == store)
                & (fn.col("topic") == topic)
                & (fn.col("physicalOffset") < below)
            )
            rows = rows.where(~nobodys)
    return rows


def _log_file_size(stores: Mapping[str, Settings]) -> Any:
    """The size (bytes) of the log's files in a row's store, as a column."""
    sizes = [
        part
        for store, settings in stores.items()
        for part in (fn.lit(store), fn.lit(settings.mapped_file_size_commit_log))
    ]
    return fn.create_map(*sizes)[fn.col("store")]


def _log_file(log_file_size: Any) -> Any:
    """The path of the log file that holds a row's physicalOffset."""
    base = fn.col("physicalOffset") - fn.col("physicalOffset") % log_file_size
    return fn.concat("store", fn.lit(f"/{COMMIT_LOG}/"), fn.lpad(base.cast("string"), 20, "0"))


def _finding(df: DataFrame, check: str, what: Any, log_file_size: Any) -> DataFrame:
    return df.select(
        fn.lit(check).alias("check"),
        "store",
        _log_file(log_file_size).alias("file"),
        fn.col("physicalOffset").alias("offset"),
        what.alias("what"),
    )


def misplaced(df: DataFrame, log_file_size: Any) -> DataFrame:
    """Findings about the places in queues: offsets that are missing, offsets that two messages
    share, and offsets that do not ascend with the log.
    """
    order = Window.partitionBy("store", "topic", "queueId").orderBy("queueOffset", "physicalOffset")
    rows = df.select("store", "topic", "queueId", "queueOffset", "physicalOffset").select(
        "*",
        fn.lag("queueOffset").over(order).alias("before"),
        fn.lag("physicalOffset").over(order).alias("place"),
    )
    at = fn.format_string(
        "%s/%d has message %d", fn.col("topic"), fn.col("queueId"), fn.col("queueOffset")
    )
    last = fn.format_string(" behind message %d at %d", fn.col("before"), fn.col("place"))
    missing = fn.col("queueOffset") - fn.col("before") - 1
    what = (
        fn.when(missing == -1, fn.concat(at, fn.lit(" twice: the other is"), last))
        .when(missing > 0, fn.concat(at, last, fn.format_string(": %d are missing", missing)))
        .when(
            fn.col("physicalOffset") < fn.col("place"),
            fn.concat(at, last, fn.lit(", later in the log")),
        )
    )
    wrong = rows.withColumn("what", what).where(fn.col("what").isNotNull())
    return _finding(wrong, "queue offsets", fn.col("what"), log_file_size)


def twice(df: DataFrame, log_file_size: Any) -> DataFrame:
    """Findings about ids that several messages of a topic share, in any of the stores. A message
    that a group got again keeps its id but has another reconsumeTimes, and is no finding.
    """
    place = fn.struct("storeTimestamp", "store", "physicalOffset")
    rows = (
        df.where(fn.col("messageId").isNotNull())
        .select("topic", "messageId", "reconsumeTimes", place.alias("place"))
        .groupBy("topic", "messageId", "reconsumeTimes")
        .agg(
            fn.count("*").alias("messages"),
            fn.min("place").alias("first"),
            fn.max("place").alias("last"),
        )
        .where(fn.col("messages") > 1)
        .select("*", "last.store", "last.physicalOffset")
    )
    what = fn.format_string(
        "%d messages of %s have the UNIQ_KEY %s; the first is at %d of %s",
        *(fn.col(name) for name in ("messages", "topic", "messageId")),
        *(fn.col(f"first.{name}") for name in ("physicalOffset", "store")),
    )
    return _finding(rows, "duplicates", what, log_file_size)


def queue_ends(df: DataFrame) -> DataFrame:
    """For each queue of each store the first and last offset in the log, and the number of
    messages.
    """
    return (
        df.groupBy("store", "topic", "queueId")
        .agg(
            fn.min("queueOffset").alias("first"),
            fn.max("queueOffset").alias("last"),
            fn.count("*").alias("messages"),
        )
        .orderBy("store", "topic", "queueId")
    )


def _ends(
    queues: Sequence[Mapping[str, Any]],
    store: str,
    held: Mapping[tuple[str, int], tuple[int, int]],
) -> dict[tuple[str, int], tuple[int, int]]:
    """For each queue the first offset and the one behind the last. They come from the queue's
    files, or from the log if a crash has left these files behind the log.
    """
    ends = dict(held)
    for row in queues:
        if row["store"] == store:
            queue = row["topic"], row["queueId"]
            first, end = ends.get(queue, (row["first"], 0))
            ends[queue] = first, max(end, row["last"] + 1)
    return ends


def write_parquet(spark: SparkSession, found: Audit, folder: str) -> None:
    """Writes findings, queues and progress to folders of these names, replacing existing ones."""
    kinds = {"findings": FINDING, "queues": _QUEUE, "progress": _PROGRESS}
    for name, schema in kinds.items():
        df = spark.createDataFrame(getattr(found, name), schema)
        df.coalesce(1).write.mode("overwrite").parquet(f"{folder}/{name}")
