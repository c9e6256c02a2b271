"""The settings of a store, read from their sources. Other packages import this module of `conf`.

Sources in rising precedence: defaults, what the store was made with, the TOML file, variables
`SILOMQ_<NAME>`, overrides (`NAME=VALUE`, the CLI's `--set`). In files and overrides names may be
RocketMQ's (`flushDiskType`). An unknown name or a value that is not allowed raises SettingError,
which says what is allowed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from .kinds import Kind, SettingError
from .relations import check_relations, largest_body
from .schema import (
    DEFAULT_MAX_MESSAGE_SIZE,
    QUEUE_ENTRY,
    Fields,
    FlushDiskType,
    LogFormat,
    LogLevel,
    kinds,
)
from .sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = (
    "Description",
    "FlushDiskType",
    "LogFormat",
    "LogLevel",
    "Remembered",
    "SettingError",
    "Settings",
    "describe",
    "load",
    "load_with_origins",
)

PREFIX: Final = "SILOMQ_"
#: Variables of a broker, which has settings of its own (`broker_settings.py`).
BROKER_PREFIX: Final = "SILOMQ_BROKER_"
#: The origin of a setting that the store remembers.
STORE: Final = "the store"
#: Variables with the prefix that are not settings: the path of the file, and those of tests.
NOT_SETTINGS: Final = frozenset(
    f"{PREFIX}{name}"
    for name in ("CONFIG", "DISK_RECORD", "FAULT", "FAULT_BUILD", "FAULT_TOKEN", "LONG")
)


def _is_setting(variable: str) -> bool:
    """Whether a variable with the prefix sets a store's setting."""
    return variable not in NOT_SETTINGS and not variable.startswith(BROKER_PREFIX)


class Settings(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one store. Raises SettingError for values that are not allowed, alone or
    together.
    """

    def __post_init__(self) -> None:
        for name, kind in kinds().items():
            value = getattr(self, name)
            try:
                parsed = kind.parse(value)
            except ValueError:
                raise SettingError(name, value, kind.range) from None
            if parsed is not value:
                msgspec.structs.force_setattr(self, name, parsed)
        entries = -(-self.mapped_file_size_consume_queue // QUEUE_ENTRY)
        msgspec.structs.force_setattr(self, "mapped_file_size_consume_queue", entries * QUEUE_ENTRY)
        if self.max_message_size == DEFAULT_MAX_MESSAGE_SIZE:
            # A user who sets small files need not set this as well: the default is lowered.
            fits = min(self.max_message_size, largest_body(self))
            msgspec.structs.force_setattr(self, "max_message_size", fits)
        check_relations(self)

    @property
    def sends_to_light_queues(self) -> bool:
        """Whether producers may put messages into light queues. RocketMQ numbers the messages with
        the first of these settings, and makes the queues' entries with the second.
        """
        return self.enable_lmq and self.enable_multi_dispatch


class Remembered(NamedTuple):
    """The settings that a store was made with. With `certain` other values are refused; otherwise
    they are only better defaults.
    """

    values: Mapping[str, int]
    certain: bool


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """One setting in words. `default` is written as in the TOML file."""

    name: str
    unit: str
    range: str
    default: str
    reason: str
    rocketmq: tuple[str, ...]


def sources() -> Sources:
    """Where a store's settings come from."""
    return Sources(kinds(), PREFIX, _is_setting, "silomq.toml")


def load(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    remembered: Callable[[Path], Remembered] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Settings:
    """The settings from the TOML file at `path`, the environment and `overrides`.

    `remembered` is called with the store's folder, and says with which settings it was made.
    `defaults` replace those of the table. Raises SettingError, also for a setting that contradicts
    the store; OSError when the file cannot be read.
    """
    found, _ = load_with_origins(
        path, environ=environ, overrides=overrides, remembered=remembered, defaults=defaults
    )
    return found


def load_with_origins(
    path: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    remembered: Callable[[Path], Remembered] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """`load`, and the source of each setting's value by the setting's name: "default", STORE, the
    file's path, "environment NAME" or "--set".
    """
    values: dict[str, Any] = {}
    origins = dict.fromkeys(kinds(), "default")
    of_store = sources()
    for source in (
        of_store.file(path),
        of_store.environment(os.environ if environ is None else environ),
        of_store.overrides(overrides),
    ):
        for name, value, origin in source:
            values[name] = value
            origins[name] = origin
    made_with = _made_with(values, remembered)
    for name, value in made_with.values.items():
        if name not in values:
            values[name], origins[name] = value, STORE
    try:
        settings = Settings(**{**(defaults or {}), **values})
        if made_with.certain:
            _check_agrees(settings, made_with.values, values)
    except SettingError as error:
        origin = origins[error.key]
        if origin == "default":
            raise
        raise SettingError(error.key, error.value, error.allowed, origin) from None
    return settings, origins


def _made_with(
    given: Mapping[str, Any], remembered: Callable[[Path], Remembered] | None
) -> Remembered:
    if remembered is None:
        return Remembered({}, certain=False)
    return remembered(given.get("store_path", Settings().store_path))


def _check_agrees(
    settings: Settings, made_with: Mapping[str, int], given: Mapping[str, Any]
) -> None:
    """Raises SettingError for a setting that is not the one which the store was made with."""
    for name, value in made_with.items():
        if getattr(settings, name) != value:
            why = f"the store was made with {value}; leave it out, because the store knows it"
            raise SettingError(name, given[name], why)


def describe() -> list[Description]:
    """All settings, in the order of the annotated file."""
    return described(kinds(), Settings())


def described(table: Mapping[str, Kind], defaults: object) -> list[Description]:
    """The settings of a table of kinds, with the values that `defaults` has."""
    return [
        Description(
            name=name,
            unit=kind.unit,
            range=kind.range,
            default=kind.show(getattr(defaults, name)),
            reason=kind.reason,
            rocketmq=kind.rocketmq,
        )
        for name, kind in table.items()
    ]
