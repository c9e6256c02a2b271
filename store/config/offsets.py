"""`config/consumerOffset.json` and `config/subscriptionGroup.json`: offsets and settings of
consumer groups.

Schema and dialect are RocketMQ's (`ConsumerOffsetManager`, `SubscriptionGroupManager`). The first
file has the queue offset of the next message for each group and queue (`topic@group` -> {queue id:
offset}). The second has each group's settings. Unknown fields, and entries whose names are not
valid, are kept and written back as they were.

If a file is unreadable, its `.bak` is loaded, and the problems that `load` returns say so (see
`fastjson.load_file`). Single bad values are left out, or come from the `.bak`. The next `save` then
does not replace the good backup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..errors import IllegalMessage
from ..names import validate_group, validate_topic
from .fastjson import Parsed, dumps, int_keys, load_file, loads, number, plain, save_file, typed
from .topics import DataVersion

if TYPE_CHECKING:
    import os

OFFSETS_FILE: Final = "consumerOffset.json"
#: In `silomq/`: the progress of broadcasting members, for which RocketMQ has no file.
BROADCAST_FILE: Final = "broadcastOffset.json"
GROUPS_FILE: Final = "subscriptionGroup.json"
SEPARATOR: Final = "@"
MAX_QUEUE_ID: Final = 0x7FFF_FFFF


class GroupOffsets(dict[tuple[str, str], dict[int, int]]):
    """(topic, group) -> {queue id: queue offset of the next message}, with the file's version.

    `rest` holds the other fields of the file, `foreign` the entries whose names are not valid.
    `main_is_good` is false if the file was bad or had bad values.
    """

    def __init__(self, offsets: Mapping[tuple[str, str], dict[int, int]] | None = None) -> None:
        super().__init__(offsets or {})
        self.data_version = DataVersion()
        self.rest: dict[Any, Any] = {}
        self.foreign: dict[str, Any] = {}
        self.main_is_good = True


class GroupConfig(msgspec.Struct, frozen=True):
    """One consumer group; names and defaults are those of RocketMQ's `SubscriptionGroupConfig`.

    `rest` holds the fields of other versions of RocketMQ, as they stood in the file.
    """

    group_name: str
    attributes: Mapping[str, str] = {}
    broker_id: int = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    group_retry_policy: Mapping[str, Any] = msgspec.field(
        default_factory=lambda: {"type": "CUSTOMIZED"}
    )
    group_sys_flag: int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1
    subscription_data_set: list[Any] | None = None
    which_broker_when_consume_slowly: int = 1
    rest: Mapping[str, Any] = {}


class SubscriptionGroups(dict[str, GroupConfig]):
    """Group name -> GroupConfig, with the file's version.

    `forbidden` is RocketMQ's forbiddenTable: group -> {topic: bits}. `rest`, `foreign` and
    `main_is_good` are as in GroupOffsets.
    """

    def __init__(self, groups: Mapping[str, GroupConfig] | None = None) -> None:
        super().__init__(groups or {})
        self.data_version = DataVersion()
        self.forbidden: dict[str, dict[str, int]] = {}
        self.rest: dict[Any, Any] = {}
        self.foreign: dict[str, Any] = {}
        self.main_is_good = True


def load(path: str | os.PathLike[str]) -> tuple[GroupOffsets, list[str]]:
    """The offsets in `path` or its `.bak` (empty if there is neither), and problems for the log.

    Raises Corrupt if one of the files holds something and neither is readable.
    """
    offsets, report = load_file(path, parse, GroupOffsets)
    offsets.main_is_good = report.main_is_good
    return offsets, [report.problem] if report.problem else []


def save(path: str | os.PathLike[str], offsets: GroupOffsets) -> None:
    """Replaces `path` durably. The old file becomes its `.bak`, unless it was bad. Raises
    OSError.
    """
    save_file(path, render(offsets), main_is_good=offsets.main_is_good)
    offsets.main_is_good = True


def load_groups(path: str | os.PathLike[str]) -> tuple[SubscriptionGroups, list[str]]:
    """The groups in `path` or its `.bak` (empty if there is neither), and problems for the log.

    Raises Corrupt if one of the files holds something and neither is readable.
    """
    groups, report = load_file(path, parse_groups, SubscriptionGroups)
    groups.main_is_good = report.main_is_good
    return groups, [report.problem] if report.problem else []


def save_groups(path: str | os.PathLike[str], groups: SubscriptionGroups) -> None:
    """Replaces `path` durably. The old file becomes its `.bak`, unless it was bad. Raises
    OSError.
    """
    save_file(path, render_groups(groups), main_is_good=groups.main_is_good)
    groups.main_is_good = True


def render(offsets: GroupOffsets) -> str:
    """The text of consumerOffset.json, sorted by topic and group, then queue id."""
    table: dict[str, Any] = {
        f"{topic}{SEPARATOR}{group}": dict(sorted(queues.items()))
        for (topic, group), queues in offsets.items()
    }
    return _file(offsets.rest, offsets.data_version, {"offsetTable": {**offsets.foreign, **table}})


def parse(text: str, backup: Parsed[GroupOffsets] | None = None) -> Parsed[GroupOffsets]:
    """The offsets in a file's text. For a group's topic with a bad value, the backup's offsets
    count beside the good ones. Raises ValueError.
    """
    root = typed(loads(text), dict, "the file")
    offsets = GroupOffsets()
    offsets.data_version, bad = DataVersion.of(root)
    offsets.rest = _without(root, "dataVersion", "offsetTable")
    parsed = Parsed(offsets, bad=bad)
    for key, value in _table(root, "offsetTable").items():
        name = str(key)
        topic, _, group = name.partition(SEPARATOR)
        why = _illegal(topic, group)
        if why:
            offsets.foreign[name] = plain(value, f"offsets of {name!a}")
            parsed.problems.append(f"offsets of {name[:200]!a} are kept but not used: {why}")
            continue
        known = len(parsed.bad)
        found = _queue_offsets(name, value, parsed)
        if len(parsed.bad) > known and backup is not None:
            found = {**backup.value.get((topic, group), {}), **found}
        offsets[topic, group] = found
    return parsed


def _queue_offsets(name: str, value: object, parsed: Parsed[GroupOffsets]) -> dict[int, int]:
    """The good offsets of a group's topic by queue id. Notes the bad ones in `parsed`."""
    found: dict[int, int] = {}
    if not isinstance(value, dict):
        parsed.bad.append(f"offsets of {name} are {type(value).__name__}, not dict")
        return found
    for key, offset in value.items():
        where = f"offset of queue {str(key)[:40]!a} of {name}"
        try:
            (queue_id,) = int_keys({key: offset})
            number({"queue id": queue_id}, "queue id", 0, MAX_QUEUE_ID)
            if type(offset) is int and offset == -1:
                # RocketMQ writes -1 if nothing is consumed yet. It means the same as no entry.
                parsed.problems.append(f"{where} is -1 and left out")
                continue
            found[queue_id] = number({"it": offset}, "it", 0)
        except ValueError as error:
            parsed.bad.append(f"{where}: {error}")
    return found


def render_groups(groups: SubscriptionGroups) -> str:
    """The text of subscriptionGroup.json, groups sorted by name."""
    table = {name: bean(config) for name, config in groups.items()}
    forbidden = {
        group: dict(sorted(topics.items())) for group, topics in sorted(groups.forbidden.items())
    }
    return _file(
        groups.rest,
        groups.data_version,
        {"forbiddenTable": forbidden, "subscriptionGroupTable": {**groups.foreign, **table}},
    )


def parse_groups(
    text: str, backup: Parsed[SubscriptionGroups] | None = None
) -> Parsed[SubscriptionGroups]:
    """The groups in a file's text. Groups whose values are bad come from `backup`. Raises
    ValueError.
    """
    root = typed(loads(text), dict, "the file")
    groups = SubscriptionGroups()
    groups.data_version, bad = DataVersion.of(root)
    groups.rest = _without(root, "dataVersion", "forbiddenTable", "subscriptionGroupTable")
    parsed = Parsed(groups, bad=bad)
    for group, topics in _table(root, "forbiddenTable").items():
        try:
            bits = typed(topics, dict, f"forbiddenTable of {group}")
            groups.forbidden[str(group)] = {
                str(t): typed(b, int, f"forbiddenTable of {group}, {t}") for t, b in bits.items()
            }
        except ValueError as error:
            parsed.bad.append(str(error))
            if backup is not None and str(group) in backup.value.forbidden:
                groups.forbidden[str(group)] = backup.value.forbidden[str(group)]
    for key, value in _table(root, "subscriptionGroupTable").items():
        name = str(key)
        try:
            validate_group(name)
        except IllegalMessage as error:
            groups.foreign[name] = plain(value, f"group {name!a}")
            parsed.problems.append(f"group {name[:200]!a} is kept but not used: {error.why}")
            continue
        try:
            groups[name] = _config(name, typed(value, dict, f"group {name}"))
        except ValueError as error:
            parsed.bad.append(f"group {name}: {error}")
            if backup is not None and name in backup.value:
                groups[name] = backup.value[name]
    return parsed


def _file(rest: dict[Any, Any], version: DataVersion, tables: dict[str, dict[str, Any]]) -> str:
    """The text of a file. Keys of the file and of its tables are sorted, as fastjson sorts those of
    a bean.
    """
    root = {**rest, "dataVersion": version.bean()}
    for name, table in tables.items():
        root[name] = {key: table[key] for key in sorted(table)}
    return dumps({key: root[key] for key in sorted(root, key=str)})


def _table(root: dict[Any, Any], name: str) -> dict[Any, Any]:
    value = root.get(name)
    return {} if value is None else typed(value, dict, name)


def _without(root: dict[Any, Any], *names: str) -> dict[Any, Any]:
    return {key: plain(value, str(key)) for key, value in root.items() if key not in names}


def _illegal(topic: str, group: str) -> str | None:
    try:
        validate_topic(topic)
        validate_group(group)
    except IllegalMessage as error:
        return error.why
    return None


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


#: Bean key of each field of GroupConfig that RocketMQ has.
_KEYS: Final = {n: _camel(n) for n in GroupConfig.__struct_fields__ if n != "rest"}
_NUMBERS: Final = (
    "broker_id",
    "consume_timeout_minute",
    "group_sys_flag",
    "which_broker_when_consume_slowly",
    "retry_queue_nums",
)
_TRUTHS: Final = (
    "consume_broadcast_enable",
    "consume_enable",
    "consume_from_min_enable",
    "consume_message_orderly",
    "notify_consumer_ids_changed_enable",
)


def bean(config: GroupConfig) -> dict[str, Any]:
    """A group as it stands in the file, with its keys sorted."""
    found = {**config.rest}
    for name, key in _KEYS.items():
        value = getattr(config, name)
        found[key] = dict(sorted(value.items())) if isinstance(value, dict) else value
    return {key: found[key] for key in sorted(found, key=str)}


def _config(name: str, found: dict[Any, Any]) -> GroupConfig:
    said = found.get("groupName", name)
    if said != name:
        raise ValueError(f"group {name} calls itself {said!r}")
    default = GroupConfig(name)
    known: dict[str, Any] = {}
    for each in _NUMBERS:
        known[each] = number(found, _KEYS[each], getattr(default, each))
    for each in _TRUTHS:
        value = found.get(_KEYS[each], getattr(default, each))
        known[each] = typed(value, bool, f"{_KEYS[each]} of group {name}")
    attributes = typed(found.get("attributes") or {}, dict, f"attributes of group {name}")
    known["attributes"] = {str(k): typed(v, str, f"attribute {k}") for k, v in attributes.items()}
    policy = found.get("groupRetryPolicy") or default.group_retry_policy
    known["group_retry_policy"] = typed(policy, dict, f"groupRetryPolicy of group {name}")
    # -1 is allowed: RocketMQ means its own default by it, which is 16.
    times = found.get("retryMaxTimes", default.retry_max_times)
    known["retry_max_times"] = -1 if times == -1 else number(found, "retryMaxTimes", 16)
    wanted = found.get("subscriptionDataSet")
    if wanted is not None:
        wanted = typed(wanted, list, f"subscriptionDataSet of group {name}")
    known["subscription_data_set"] = wanted
    return GroupConfig(name, rest=_without(found, *_KEYS.values()), **known)
