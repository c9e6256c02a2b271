"""`config/topics.json`: the topics, with the number of their queues and other settings.

The registry writes it at each change, and a start reads it. Schema and dialect are RocketMQ's
(`TopicConfigManager`, `TopicConfigSerializeWrapper`): `dataVersion` and `topicConfigTable`, bean
keys in alphabetical order. Absent keys have their defaults (4.x has no `attributes` and no
`stateVersion`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ..errors import IllegalMessage
from ..names import validate_topic
from .fastjson import LoadReport, dumps, load_file, loads, number, save_file, typed

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

MAX_QUEUES: Final = 0x7FFF_FFFF

PERM_WRITE: Final = 2
PERM_READ: Final = 4
DEFAULT_PERM: Final = PERM_READ | PERM_WRITE
DEFAULT_QUEUES: Final = 16
FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One topic; names and defaults are those of RocketMQ's `TopicConfig`."""

    topic_name: str
    read_queue_nums: int = DEFAULT_QUEUES
    write_queue_nums: int = DEFAULT_QUEUES
    perm: int = DEFAULT_PERM
    order: bool = False
    topic_filter_type: str = FILTER_TYPES[0]
    topic_sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def writable(self) -> bool:
        """Whether producers may send."""
        return bool(self.perm & PERM_WRITE)


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The version of a file: the number of its changes, and the time of the last one (epoch ms)."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def next(self, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return replace(self, counter=self.counter + 1, timestamp=now_ms)

    @classmethod
    def of(cls, root: Mapping[Any, Any]) -> DataVersion:
        """The version that a parsed file carries, zeros if it has none. Raises ValueError."""
        version = typed(root.get("dataVersion") or {}, dict, "dataVersion")
        return cls(
            number(version, "counter", 0),
            number(version, "stateVersion", 0),
            number(version, "timestamp", 0),
        )

    def bean(self) -> dict[str, Any]:
        """The object that represents the version in a file."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }


@dataclass(frozen=True, slots=True)
class TopicTable:
    """All topics of the file, by name, and its version. Immutable."""

    topics: Mapping[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion = DataVersion()

    def without_topic(self, name: str, now_ms: int) -> TopicTable:
        """The table without the topic `name`; the same table if there is none."""
        if name not in self.topics:
            return self
        topics = {n: c for n, c in self.topics.items() if n != name}
        return TopicTable(topics, self.data_version.next(now_ms))


def load(path: str | os.PathLike[str]) -> tuple[TopicTable, LoadReport]:
    """The table in `path` or its `.bak`, empty if there is neither; see `fastjson.load_file`.

    An entry whose name is not valid for a topic is left out, and the report says so: RocketMQ's
    broker keeps its own and its cluster's name there, which may hold dots. Raises Corrupt if one of
    the files holds something and neither is readable.
    """
    loaded, report = load_file(path, parse)
    if loaded is None:
        return TopicTable(), report
    table, skipped = loaded
    if skipped:
        said = f"topics left out: {'; '.join(skipped)}"
        report = replace(report, problem=f"{report.problem}; {said}" if report.problem else said)
    return table, report


def save(path: str | os.PathLike[str], table: TopicTable, *, keep_backup: bool = True) -> None:
    """Replaces `path` durably. With `keep_backup` the old file becomes its `.bak`, see
    `fastjson.LoadReport`. Raises OSError.
    """
    save_file(path, render(table), keep_backup=keep_backup)


def render(table: TopicTable) -> str:
    """The text of the file, with the topics sorted by name. RocketMQ writes them in the order of a
    hash table.
    """
    return dumps(
        {
            "dataVersion": table.data_version.bean(),
            "topicConfigTable": {name: _bean(table.topics[name]) for name in sorted(table.topics)},
        }
    )


def parse(text: str) -> tuple[TopicTable, list[str]]:
    """The table in a file's text, and why which entries were left out. Raises ValueError."""
    root = typed(loads(text), dict, "the file")
    topics: dict[str, TopicConfig] = {}
    skipped: list[str] = []
    for key, bean in typed(root.get("topicConfigTable") or {}, dict, "topicConfigTable").items():
        name = str(key)
        try:
            validate_topic(name)
        except IllegalMessage as e:
            skipped.append(e.why)
            continue
        topics[name] = _config(name, typed(bean, dict, f"topic {name}"))
    return TopicTable(topics, DataVersion.of(root)), skipped


def _bean(config: TopicConfig) -> dict[str, Any]:
    return {
        "attributes": dict(sorted(config.attributes.items())),
        "order": config.order,
        "perm": config.perm,
        "readQueueNums": config.read_queue_nums,
        "topicFilterType": config.topic_filter_type,
        "topicName": config.topic_name,
        "topicSysFlag": config.topic_sys_flag,
        "writeQueueNums": config.write_queue_nums,
    }


def _config(name: str, bean: dict[Any, Any]) -> TopicConfig:
    said = bean.get("topicName", name)
    if said != name:
        raise ValueError(f"topic {name} calls itself {said!r}")
    filter_type = bean.get("topicFilterType") or FILTER_TYPES[0]
    if filter_type not in FILTER_TYPES:
        raise ValueError(
            f"topic {name}: topicFilterType {filter_type!r}, not one of {FILTER_TYPES}"
        )
    attributes = typed(bean.get("attributes") or {}, dict, f"attributes of topic {name}")
    return TopicConfig(
        topic_name=name,
        read_queue_nums=number(bean, "readQueueNums", DEFAULT_QUEUES, MAX_QUEUES),
        write_queue_nums=number(bean, "writeQueueNums", DEFAULT_QUEUES, MAX_QUEUES),
        perm=number(bean, "perm", DEFAULT_PERM, MAX_QUEUES),
        order=typed(bean.get("order", False), bool, f"order of topic {name}"),
        topic_filter_type=filter_type,
        topic_sys_flag=number(bean, "topicSysFlag", 0, MAX_QUEUES),
        attributes={str(k): typed(v, str, f"attribute {k}") for k, v in attributes.items()},
    )
