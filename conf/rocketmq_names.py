"""Settings as RocketMQ writes them: its names, and values without units."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from .kinds import DelayLevels, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping


def rocketmq_texts(kinds: Mapping[str, Kind], settings: object) -> dict[str, str]:
    """All settings by RocketMQ's name, or by ours where it has none."""
    return {
        (kind.rocketmq or (name,))[0]: rocketmq_text(kind, getattr(settings, name))
        for name, kind in kinds.items()
    }


def rocketmq_text(kind: Kind, value: object) -> str:
    """A value as a Java properties file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(kind, DelayLevels):
        return kind.show(value)[1:-1]
    return str(value)
