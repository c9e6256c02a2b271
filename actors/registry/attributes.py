"""Attributes of topics and groups: RocketMQ's settings by name, which the store keeps for it."""

from __future__ import annotations

from collections.abc import Mapping

from ...shm.protocol.requests import Alter, SetGroup
from .refusals import illegal

_MOST = 64


def changed(before: Mapping[str, str], request: Alter | SetGroup) -> dict[str, str]:
    """The attributes after a request. Raises Refused for too many."""
    dropped = set(request.drop_attributes)
    after = {name: value for name, value in before.items() if name not in dropped}
    after |= request.set_attributes
    if len(after) > _MOST:
        raise illegal(f"{len(after)} attributes: at most {_MOST}")
    return after
