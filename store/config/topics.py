"""`config/topics.json`: the topics, with the number of their queues and other settings.

The registry writes it at each change, and a start reads it. Schema and dialect are RocketMQ's
(`TopicConfigManager`, `TopicConfigSerializeWrapper`): `dataVersion` and `topicConfigTable`, bean
keys in alphabetical order. Absent keys have their defaults (4.x has no `attributes` and no
`stateVersion`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from ..errors import IllegalMessage
from ..names import validate_topic
from .fastjson import (
    LoadReport,
    Parsed,
    Rendered,
    dumps,
    load_file,
    loads,
    number,
    plain,
    save_file,
    typed,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

MAX_QUEUES: Final = 0x7FFF_FFFF

PERM_WRITE: Final = 2
PERM_READ: Final = 4
DEFAULT_PERM: Final = PERM_READ | PERM_WRITE
DEFAULT_QUEUES: Final = 16
FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")
_ROOT: Final = frozenset(("dataVersion", "topicConfigTable"))
_BEAN: Final = frozenset(
    (
        "attributes", "order", "perm", "readQueueNums", "topicFilterType", "topicName",
        "topicSysFlag", "writeQueueNums",
    )
)  # fmt: skip


class TopicConfig(msgspec.Struct, frozen=True):
    """One topic; names and defaults are those of RocketMQ's `TopicConfig`. `rest` holds the fields
    of other versions of RocketMQ, as they stood in the file.
    """

    topic_name: str
    read_queue_nums: int = DEFAULT_QUEUES
    write_queue_nums: int = DEFAULT_QUEUES
    perm: int = DEFAULT_PERM
    order: bool = False
    topic_filter_type: str = FILTER_TYPES[0]
    topic_sys_flag: int = 0
    attributes: Mapping[str, str] = {}
    rest: Mapping[str, Any] = {}

    @property
    def writable(self) -> bool:
        """Whether producers may send."""
        return bool(self.perm & PERM_WRITE)


class DataVersion(msgspec.Struct, frozen=True):
    """The version of a file: the number of its changes, and the time of the last one (epoch ms)."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def next(self, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return replace(self, counter=self.counter + 1, timestamp=now_ms)

    @classmethod
    def of(cls, root: Mapping[Any, Any]) -> tuple[DataVersion, list[str]]:
        """The version that a parsed file carries, zeros if it has none, and why it is bad."""
        try:
            version = typed(root.get("dataVersion") or {}, dict, "dataVersion")
            found = cls(
                number(version, "counter", 0),
                number(version, "stateVersion", 0),
                number(version, "timestamp", 0),
            )
        except ValueError as error:
            return cls(), [f"dataVersion: {error}"]
        return found, []

    def bean(self) -> dict[str, Any]:
        """The object that represents the version in a file."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }


class TopicTable(msgspec.Struct, frozen=True):
    """All topics of the file, by name, and its version. Immutable.

    `rest` holds the other fields of the file, `foreign` the entries whose names are not valid for a
    topic: RocketMQ's broker keeps its own and its cluster's name there, which may hold dots.
    """

    topics: Mapping[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    rest: Mapping[Any, Any] = {}
    foreign: Mapping[str, Any] = {}

    def without_topic(self, name: str, now_ms: int) -> TopicTable:
        """The table without the topic `name`; the same table if there is none."""
        if name not in self.topics:
            return self
        topics = {n: c for n, c in self.topics.items() if n != name}
        return replace(self, topics=topics, data_version=self.data_version.next(now_ms))


def load(path: str | os.PathLike[str]) -> tuple[TopicTable, LoadReport]:
    """The table in `path` or its `.bak`, empty if there is neither; see `fastjson.load_file`.

    An entry whose values cannot be right comes from the backup or is left out, and the report says
    so. Raises Corrupt if one of the files holds something and neither is readable.
    """
    return load_file(path, parse, TopicTable)


#: The texts of topics that were rendered before, by name, each with its config.
Texts: TypeAlias = dict[str, tuple[TopicConfig, Rendered]]


def save(
    path: str | os.PathLike[str],
    table: TopicTable,
    *,
    main_is_good: bool = True,
    texts: Texts | None = None,
) -> None:
    """Replaces `path` durably. The old file becomes its `.bak`, see `fastjson.save_file`. `texts`
    is as for `render`. Raises OSError.
    """
    save_file(path, render(table, texts), main_is_good=main_is_good)


def render(table: TopicTable, texts: Texts | None = None) -> str:
    """The text of the file, with the topics sorted by name. RocketMQ writes them in the order of a
    hash table.

    A caller that keeps `texts` between calls pays for topics that have changed only: with 20,000
    topics, that is a tenth of the time. The texts of topics that are gone are dropped.
    """
    texts = {} if texts is None else texts
    for gone in texts.keys() - table.topics.keys():
        del texts[gone]
    beans: dict[str, Any] = dict(table.foreign)
    for name, config in table.topics.items():
        known = texts.get(name)
        if known is None or known[0] is not config:
            known = texts[name] = (config, dumps(_bean(config), depth=2))
        beans[name] = known[1]
    root: dict[Any, Any] = {
        **table.rest,
        "dataVersion": table.data_version.bean(),
        "topicConfigTable": {name: beans[name] for name in sorted(beans)},
    }
    return dumps({key: root[key] for key in sorted(root, key=str)})


def parse(text: str, backup: Parsed[TopicTable] | None = None) -> Parsed[TopicTable]:
    """The table in a file's text. Topics whose values are bad come from `backup`. Raises
    ValueError.
    """
    root = typed(loads(text), dict, "the file")
    topics: dict[str, TopicConfig] = {}
    foreign: dict[str, Any] = {}
    version, bad = DataVersion.of(root)
    rest = {k: plain(v, str(k)) for k, v in root.items() if k not in _ROOT}
    parsed = Parsed(TopicTable(topics, version, rest, foreign), bad=bad)
    for key, bean in typed(root.get("topicConfigTable") or {}, dict, "topicConfigTable").items():
        name = str(key)
        try:
            validate_topic(name)
        except IllegalMessage as e:
            parsed.problems.append(f"not used as a topic: {e.why}")
            foreign[name] = plain(bean, f"topic {name!a}")
            continue
        try:
            topics[name] = _config(name, typed(bean, dict, f"topic {name}"))
        except ValueError as error:
            parsed.bad.append(str(error))
            if backup is not None and name in backup.value.topics:
                topics[name] = backup.value.topics[name]
    return parsed


def _bean(config: TopicConfig) -> dict[str, Any]:
    bean = {
        **config.rest,
        "attributes": dict(sorted(config.attributes.items())),
        "order": config.order,
        "perm": config.perm,
        "readQueueNums": config.read_queue_nums,
        "topicFilterType": config.topic_filter_type,
        "topicName": config.topic_name,
        "topicSysFlag": config.topic_sys_flag,
        "writeQueueNums": config.write_queue_nums,
    }
    return bean if not config.rest else {key: bean[key] for key in sorted(bean, key=str)}


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
        attributes={
            str(k): _attribute(v, f"attribute {k}") for k, v in attributes.items() if v is not None
        },
        rest={k: plain(v, f"{k} of topic {name}") for k, v in bean.items() if k not in _BEAN},
    )


def _attribute(value: object, what: str) -> str:
    """The text of an attribute. RocketMQ takes a number, true and false for their texts, too."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else typed(value, str, what)
