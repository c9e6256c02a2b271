"""The sink of data source `silomq`: rows become messages of a running store on this machine.

    frame.write.format("silomq").mode("append").option("topic", "Orders").save(store)
    stream.writeStream.format("silomq").option("checkpointLocation", there).start(store)

Tasks check their rows and stage them as Arrow files. The driver publishes them (`publish.py`) only
when all tasks have succeeded. So a bad row stops the write before any message exists, and a batch
that is repeated after a crash is published once. `rows.py` has the columns.

===========  =========  =======================================================================
option       default    meaning
===========  =========  =======================================================================
path                    the store's folder; the store must run
topic                   the topic of rows that name none
acknowledge  store      `store`: as the store answers (flush_disk_type); `durable`: a batch is
                        done when it is on the disk
batchSize    4096       greatest number of messages without an answer
sinkId       the query  name of the sink, whose batches are numbered. A batch write with a sinkId
                        may be repeated: it is finished if it was begun, and never done twice
staging      its store  folder for staged rows and the ledger; driver and tasks must see it
timeout      60         seconds to wait for the store, or for another publisher of this sink
===========  =========  =======================================================================

A batch write without a sinkId cannot be recognised when it is repeated. If its driver is killed,
the part that was published stays, and writing again is another write. A streaming query is
recognised by the id in its checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ...client.session import Connection
from ...store.disk import files as disk
from ...store.disk.files import Folder
from ..worker import settle
from . import ledger
from .publish import Target, publish
from .rows import SCHEMA, Limits, Rows, check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
#: The user's options, and those that Spark adds.
_OPTIONS: Final = (
    "path", "topic", "acknowledge", "batchSize", "sinkId", "staging", "timeout",
    "checkpointLocation", "queryName",
)  # fmt: skip


@dataclass
class Staged(WriterCommitMessage):
    """The result of a task: the name of its staged file (None without rows), and the topics in it
    with the highest queue asked for.
    """

    sink: str
    partition: int
    file: str | None
    topics: dict[str, int]


@dataclass(frozen=True)
class Sink:
    """The options of a write, and the limits of its store. The target's `sink` is empty for a
    streaming query without sinkId; the query's id is used then.
    """

    target: Target
    topic: str | None
    limits: Limits
    checkpoint: str | None

    def stage(self, name: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Checks one task's rows and writes them to a file of their own. Raises BadRow, and leaves
        no file then.
        """
        settle()
        context = TaskContext.get()
        assert context is not None, "write runs in a task"
        partition = context.partitionId()
        rows = Rows(self.limits, self.topic, f"partition {partition}")
        file = f"{batch}.{partition}.{context.attemptNumber()}.{uuid.uuid4().hex}.arrow"
        with Folder.open(ledger.staging_of(self.target.sinks, name)) as folder:
            try:
                with folder.file(file, write=True, create=True) as fd:
                    with (
                        os.fdopen(fd, "wb", closefd=False) as out,
                        pa.ipc.new_file(out, SCHEMA) as writer,
                    ):
                        for part in rows.staged(batches):
                            writer.write_batch(part)
                    disk.sync_data(fd)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    folder.unlink(file)
                raise
            if not rows.count:
                folder.unlink(file)
                return Staged(name, partition, None, {})
        return Staged(name, partition, file, rows.topics)

    def publish(self, name: str, batch: int, messages: Sequence[WriterCommitMessage | None]) -> int:
        """Publishes everything that the tasks have staged. Returns how many messages were sent."""
        staged = sorted(
            (m for m in messages if isinstance(m, Staged)), key=lambda message: message.partition
        )
        topics: dict[str, int] = {}
        for message in staged:
            for topic, highest in message.topics.items():
                topics[topic] = max(topics.get(topic, -1), highest)
        files = [message.file for message in staged if message.file is not None]
        return publish(self._named(name), batch, files, topics)

    def _named(self, name: str) -> Target:
        target = self.target
        return Target(
            target.store, target.sinks, name, target.durable, target.window, target.timeout_s
        )


class BatchWriter(DataSourceArrowWriter):
    """One `DataFrame.write`: batch 0 of its sink. The sink is removed afterwards unless it is
    `kept`.
    """

    def __init__(self, sink: Sink, *, kept: bool) -> None:
        self.sink = sink
        self.kept = kept

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.sink.stage(self.sink.target.sink, 0, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        name = self.sink.target.sink
        self.sink.publish(name, 0, messages)
        if not self.kept:
            ledger.forget(self.sink.target.sinks, name)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        sinks, name = self.sink.target.sinks, self.sink.target.sink
        if self.kept or ledger.is_known(sinks, name):
            ledger.discard(sinks, name, 0)
        else:
            # Spark does not wait for the tasks of a write that it aborts.
            ledger.forget(sinks, name)


class StreamWriter(DataSourceStreamArrowWriter):
    """The micro-batches of a query. Spark makes each commit with a new object, in another
    process.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "write runs in a task"
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        assert query is not None, "Spark says which query and batch it runs"
        assert batch is not None, "Spark says which query and batch it runs"
        name = self.sink.target.sink or query
        ledger.make_staging(self.sink.target.sinks, name)
        return self.sink.stage(name, int(batch), iterator)

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803  Spark's
    ) -> None:
        name = self._name(messages)
        if name is not None:
            self.sink.publish(name, batchId, messages)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803  Spark's
    ) -> None:
        name = self._name(messages)
        if name is not None:
            ledger.discard(self.sink.target.sinks, name, batchId)

    def _name(self, messages: Sequence[WriterCommitMessage | None]) -> str | None:
        """The sink's name. After a failure there may be no message that has it; then it is taken
        from the query's checkpoint. If that cannot be read, the next commit removes the staged
        files.
        """
        if self.sink.target.sink:
            return self.sink.target.sink
        names = [message.sink for message in messages if isinstance(message, Staged)]
        return names[0] if names else _query_of(self.sink.checkpoint)


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """The writer of one batch write. Raises ValueError for an option, BadRow for a column,
    StoreError when the store does not run.
    """
    given = options.get("sinkId")
    sink = _sink(options, schema, given or uuid.uuid4().hex, overwrite=overwrite)
    ledger.make_staging(sink.target.sinks, sink.target.sink)
    return BatchWriter(sink, kept=given is not None)


def stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> StreamWriter:
    """The writer of a streaming query. Raises as `batch_writer`."""
    return StreamWriter(_sink(options, schema, options.get("sinkId") or "", overwrite=overwrite))


def _sink(options: Mapping[str, str], schema: StructType, name: str, *, overwrite: bool) -> Sink:
    if overwrite:
        raise ValueError("a log is only appended to: use mode append (a query: outputMode append)")
    known = {option.lower() for option in _OPTIONS}
    unknown = [option for option in options if option.lower() not in known]
    if unknown:
        raise ValueError(
            f"unknown options {', '.join(unknown)}; the sink has {', '.join(_OPTIONS[:-2])}"
        )
    if name:
        ledger.check_name(name)
    store = options.get("path")
    if not store:
        raise ValueError("option path is missing: the folder of the store to write to")
    store = str(Path(store.removeprefix("file:")).absolute())
    acknowledge = options.get("acknowledge") or "store"
    if acknowledge not in ("store", "durable"):
        raise ValueError(f"option acknowledge={acknowledge!r}: store or durable")
    topic = options.get("topic")
    check_columns([(field.name, field.dataType.simpleString()) for field in schema], topic)
    link = Connection(store, -1, client="sink")
    try:
        config = link.config
        limits = Limits.of(config.max_message_size, link.capacity, append_crc=config.append_crc)
    finally:
        link.close()
    target = Target(
        store=store,
        sinks=ledger.folder_of(store, options.get("staging")),
        sink=name,
        durable=acknowledge == "durable",
        window=int(_number(options, "batchSize", 4096, least=1)),
        timeout_s=_number(options, "timeout", 60, least=0),
    )
    return Sink(target, topic, limits, options.get("checkpointLocation"))


def _number(options: Mapping[str, str], name: str, default: float, *, least: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,9}(\.\d+)?", text) or float(text) < least:
        raise ValueError(f"option {name}={text!r}: a number, at least {least:g}")
    return float(text)


def _query_of(checkpoint: str | None) -> str | None:
    """The id of the query whose checkpoint this is; None if it cannot be read."""
    if checkpoint is None:
        return None
    path = Path(checkpoint.removeprefix("file:")) / "metadata"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError):
        return None
