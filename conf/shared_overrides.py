"""The settings of a store and of its broker in one list of NAME=VALUE texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import broker_settings, settings
from .schema import kinds
from .sources import Sources

if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTS_ALL = "`silo config --template toml` and `silo config --template broker`: each"


def split(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """The texts for the store, and those for the broker. A name that both know goes to both.
    Raises SettingError for a name that neither knows.
    """
    store, broker = settings.sources(), broker_settings.sources()
    either = Sources(
        {**kinds(), **broker_settings.kinds()}, settings.PREFIX, lambda _: True, _LISTS_ALL
    )
    of_store, of_broker = [], []
    for text in overrides:
        name = text.partition("=")[0].strip()
        if not (store.knows(name) or broker.knows(name)):
            either.overrides([text])
        if store.knows(name):
            of_store.append(text)
        if broker.knows(name):
            of_broker.append(text)
    return of_store, of_broker
