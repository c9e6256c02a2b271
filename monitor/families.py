"""`StoreCollector`: a store's figures as families of Prometheus' text format."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterator
from typing import Any, Final

import psutil
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from .. import __version__
from ..client.admin.admin import Admin
from ..client.admin.figures import lag
from ..shm.metrics import LIMITS_US, Histogram
from ..store.errors import IllegalMessage
from ..store.status import PutMessageStatus
from .broker_families import broker_families
from .looks import NOT_THERE
from .rocketmq_names import rocketmq_families
from .rows import Rows

#: The histogram of the metrics page, the family's name and what it says.
_HISTOGRAMS: Final = (
    ("put_time", "put", "From a producer's look at the clock until its frame is appended"),
    ("file_wait_time", "file_wait", "How long append waited for its next file"),
    ("commit_time", "commit", "Writes of pool bytes to files"),
    ("sync_time", "sync", "Syncs of the commit log"),
    ("queue_sync_time", "queue_sync", "Rounds that sync queues and index"),
    ("dispatch_time", "dispatch_step", "Steps of dispatch"),
    ("make_time", "file_make", "Making of commit-log files"),
    ("clean_time", "clean", "Runs that removed commit-log files"),
)
#: The word of the metrics page, the family's name and what it says.
_COUNTERS: Final = (
    ("put_bytes", "put_bytes", "Bytes of appended records"),
    ("file_rolls", "file_rolls", "How often append went on in the next file"),
    ("dispatch_failures", "dispatch_failures", "Steps of dispatch that a full disk stopped"),
    ("files_made", "files_made", "Commit-log files made"),
    ("make_failures", "file_make_failures", "Commit-log files that could not be made"),
    ("queue_removed", "queue_files_removed", "Queue files removed"),
    ("index_removed", "index_files_removed", "Index files removed"),
    ("requests", "requests", "Requests of clients that the registry has answered"),
    ("requests_refused", "requests_refused", "Those that it has answered with an error"),
    ("leases", "leases", "Leases of log files that readers asked for"),
    ("delayed_delivered", "delayed_messages_delivered", "Delayed messages delivered"),
    ("trans_checks", "transaction_checks", "Checks of transactions"),
)
_LEVELS: Final = (
    ("rings", "rings", "Sessions of clients with a ring"),
    ("members", "group_members", "Members of consumer groups"),
    ("delayed_waiting", "delayed_messages_waiting", "Delayed messages that wait for their time"),
    ("trans_open", "transactions_open", "Transactions that are not ended"),
)
_POSITIONS: Final = ("min_offset", "dispatched", "flushed", "committed", "wrote", "ready")


class StoreCollector(Collector):
    """The store in folder `store`, which may stop and come again: `silomq_up` says so.

    At most `most_topics` topics and `most_groups` groups get rows of their own.
    """

    def __init__(
        self, store: str, *, most_topics: int, most_groups: int, rocketmq_names: bool
    ) -> None:
        self._store = store
        self._topics, self._groups = Rows(most_topics), Rows(most_groups)
        self._rocketmq_names = rocketmq_names
        self._admin: Admin | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Ends the session with the store."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def collect(self) -> Iterator[Metric]:
        """All families, or `silomq_up` alone without a store."""
        with self._lock:
            try:
                found = list(self.families())
            except NOT_THERE:
                self.close()
                found = []
        yield _gauge("up", "Whether the store runs and answers", float(bool(found)))
        yield from found

    def families(self) -> Iterator[Metric]:
        """All families. Raises StoreError, OSError."""
        if self._admin is None:
            self._admin = Admin(self._store)
        admin = self._admin
        status = admin.status()
        topics = {topic.topic: topic for topic in admin.topics()}
        ends = {name: float(found.messages) for name, found in topics.items()}
        lags: dict[str, float] = {}
        for group in admin.groups():
            with contextlib.suppress(IllegalMessage):  # it was deleted meanwhile
                lags[group.name] = float(admin.group(group.name).lag)
        topic_rows, topics_summed = self._topics.split(ends)
        group_rows, groups_summed = self._groups.split(lags)
        yield from _of_store(status)
        yield from _of_log(admin, status)
        yield from _of_page(admin)
        yield from _of_processes(status)
        yield from _of_disk(self._store, status)
        yield _rows("topic_messages", "Messages in a topic's queues now", "topic", topic_rows)
        yield _gauge("topics_summed", "Topics that have no row of their own", topics_summed)
        yield _rows("group_lag_messages", "Messages not acknowledged", "group", group_rows)
        yield _gauge("groups_summed", "Groups that have no row of their own", groups_summed)
        yield from broker_families(status["brokers"])
        if self._rocketmq_names:
            yield from rocketmq_families(status, topic_rows, group_rows)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(f"silomq_{name}", about, value)


def _counter(name: str, about: str, value: float) -> Metric:
    return CounterMetricFamily(f"silomq_{name}", about, value)


def _rows(
    name: str, about: str, label: str, rows: dict[str, float], *, counter: bool = False
) -> Metric:
    kind = CounterMetricFamily if counter else GaugeMetricFamily
    family = kind(f"silomq_{name}", about, labels=[label])
    for key, value in rows.items():
        family.add_metric([key], value)
    return family


def histogram_family(name: str, about: str, found: Histogram) -> Metric:
    """A histogram of seconds."""
    family = HistogramMetricFamily(f"silomq_{name}_duration_seconds", about)
    buckets, below = [], 0
    for limit, count in zip(LIMITS_US, found.counts, strict=False):
        below += count
        buckets.append((f"{limit / 1e6:g}", float(below)))
    buckets.append(("+Inf", float(found.count)))
    family.add_metric([], buckets, found.sum_ns / 1e9)
    return family


def _of_store(status: dict[str, Any]) -> Iterator[Metric]:
    yield _rows("build_info", "The version of this program", "version", {__version__: 1.0})
    started = status["started_ms"] / 1000
    yield _gauge("start_time_seconds", "When the store started, seconds since 1970", started)
    yield _rows("state", "1 for the state of the store", "state", {status["state"]: 1.0})
    yield _counter("put_messages", "Messages appended", status["records"])
    yield _counter("dispatched_entries", "Queue entries written", status["dispatch_count"])
    yield _counter("files_removed", "Commit-log files removed", status["files_removed"])
    yield _gauge("sessions", "Sessions of clients", status["sessions"])
    yield _gauge("topics", "Topics, also the store's own", status["topics"])
    yield _gauge("memory_locked_bytes", "Memory locked for files", status["locked_bytes"])
    for what in ("flush", "allocate"):
        error = f"{what}_error"
        yield _gauge(error, f"errno of the last failure of {what}, 0: none", status[error])


def _of_log(admin: Admin, status: dict[str, Any]) -> Iterator[Metric]:
    positions = {name: float(status[name]) for name in _POSITIONS}
    yield _rows("log_offset_bytes", "Positions in the commit log", "position", positions)
    figures = admin.figures
    now, rows = figures.now(), figures.history.rows()
    for step, offset in (("flush", now.flushed), ("dispatch", now.dispatched)):
        found = lag(rows, now, offset)
        yield _gauge(f"{step}_behind_bytes", f"Bytes of the log that {step} has left", found.bytes)
        yield _gauge(f"{step}_behind_messages", f"Messages that {step} has left", found.messages)
        yield _gauge(f"{step}_behind_seconds", "Age of the oldest of them", found.seconds)


def _of_page(admin: Admin) -> Iterator[Metric]:
    metrics = admin.figures.metrics
    for field, name, about in _HISTOGRAMS:
        yield histogram_family(name, about, metrics.histogram(field))
    for field, name, about in _COUNTERS:
        yield _counter(name, about, metrics.load(field))
    for field, name, about in _LEVELS:
        yield _gauge(name, about, metrics.load(field))
    refused = dict(enumerate(map(float, metrics.words("refused"))))
    by_status = {s.name: refused[s.value] for s in PutMessageStatus if s.value and s in refused}
    about = "Frames that append has refused"
    yield _rows("put_refused", about, "status", by_status, counter=True)
    found, missed = (float(metrics.load(f"get_{name}")) for name in ("found", "missed"))
    results = {"found": found, "missed": missed}
    yield _rows("get_reads", "Reads of local clients", "result", results, counter=True)
    yield _counter("get_messages", "Messages read by local clients", metrics.load("get_messages"))
    ended = {name: float(metrics.load(f"trans_{name}")) for name in ("committed", "rolled_back")}
    yield _rows("transactions_ended", "Transactions ended", "outcome", ended, counter=True)


def _of_processes(status: dict[str, Any]) -> Iterator[Metric]:
    processes = status["processes"]
    starts = {name: float(process["starts"]) for name, process in processes.items()}
    yield _rows("process_starts", "Starts of a process", "process", starts, counter=True)
    running = {name: float(process["state"] == "READY") for name, process in processes.items()}
    yield _rows("process_ready", "Whether a process serves", "process", running)
    cpu, memory = {}, {}
    for name, process in processes.items():
        with contextlib.suppress(psutil.Error):
            if process["pid"]:
                about = psutil.Process(process["pid"])
                times = about.cpu_times()
                cpu[name] = times.user + times.system
                memory[name] = float(about.memory_info().rss)
    yield _rows("process_cpu_seconds", "CPU time of a process", "process", cpu, counter=True)
    yield _rows("process_resident_memory_bytes", "Memory in use", "process", memory)


def _of_disk(store: str, status: dict[str, Any]) -> Iterator[Metric]:
    disk = status["disk"]
    used = {
        name: disk[f"{name}_used_percent"] / 100
        for name in ("log", "queue")
        if disk[f"{name}_used_percent"] is not None
    }
    yield _rows("disk_used_ratio", "How full a disk is", "disk", used)
    yield _gauge("disk_full", "Whether puts are refused for want of space", bool(disk["flags"]))
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(os.path.join(store, "commitlog")).free
        yield _gauge("disk_free_bytes", "Free bytes on the commit log's disk", free)
