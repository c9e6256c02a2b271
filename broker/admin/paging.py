"""Pages of long lists, and the version of what is listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from ...shm.protocol.answers import Version

T = TypeVar("T")

#: RocketMQ's splitMetadataSize: so many are in a page that names no size.
_PAGE: Final = 2000
#: The version of what has none.
NO_VERSION: Final = Version(0, 0, 0)


def page_of(found: Sequence[T], first: int | None, most: int | None) -> Sequence[T]:
    """The page that begins at number `first`; everything if none is named."""
    if first is None:
        return found
    begin = max(0, first)
    return found[begin : begin + (max(0, most) if most is not None else _PAGE)]


def version_bean(version: Version) -> dict[str, int]:
    """A version as RocketMQ writes it (DataVersion)."""
    return {
        "counter": version.counter,
        "stateVersion": version.state_version,
        "timestamp": version.timestamp,
    }
