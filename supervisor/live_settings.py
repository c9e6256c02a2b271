"""Reads the settings again while a store runs: at SIGHUP, and at `silo reload`.

All of them are read and checked first. A file that cannot be read, or a value that is not allowed,
changes nothing. Then those that may change at run time (`conf/live.py`) take effect, and those that
need a restart are named.

The supervisor alone writes the word `logging` of the control block. An actor looks at it with each
heartbeat. For other settings the actors that read them are replaced, one after another.
"""

from __future__ import annotations

import grp
from pathlib import Path
from typing import Any

import msgspec

from ..actors.actor import World
from ..conf.live import LIVE
from ..conf.logging import configure, to_word
from ..conf.settings import SettingError, Settings, load
from ..shm.control import ACTORS
from ..store.errors import StoreError
from ..store.recovery.layout import known_sizes


class Reread(msgspec.Struct, frozen=True):
    """What came of reading the settings again. `refused` says what is wrong, "" if nothing is; then
    nothing has changed. `changed` have taken effect once the actors `replace` are replaced.
    `need_a_restart` have changed and keep their old values.
    """

    refused: str = ""
    changed: tuple[str, ...] = ()
    need_a_restart: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """The result in words, "" if nothing has changed."""
        parts = []
        if self.changed:
            parts.append(f"changed: {', '.join(self.changed)}")
        if self.need_a_restart:
            parts.append(f"need a restart: {', '.join(self.need_a_restart)}")
        return "; ".join(parts)


class SettingsSource(msgspec.Struct, frozen=True):
    """Where the settings of a store are read from, beside the environment: `conf/settings.py`."""

    config_file: str | None = None
    overrides: tuple[str, ...] = ()
    defaults: dict[str, Any] | None = None

    def read(self) -> Settings:
        """Reads them, also again. Raises SettingError, StoreError, OSError."""
        path = None if self.config_file is None else Path(self.config_file)
        return load(path, overrides=self.overrides, remembered=known_sizes, defaults=self.defaults)


class LiveSettings:
    """Publishes the settings of logging, and reads all settings again, from where they were read at
    the start.
    """

    def __init__(self, world: World, source: SettingsSource, logger: Any) -> None:
        self._world = world
        self.source = source
        self._logger = logger
        self._word = world.control.own("logging")

    def publish(self) -> None:
        """Publishes the settings of logging that are in force."""
        settings = self._world.settings
        self._word.store(to_word(settings.log_level, settings.log_format))

    def read(self) -> Reread:
        """Reads the settings again, and has `world.settings` be what is so from now on."""
        world = self._world
        try:
            fresh = self.source.read()
            check_admin_group(fresh.admin_group)
            found = compare(world.settings, fresh)
            merged = merge(world.settings, fresh)
        except (SettingError, StoreError, OSError) as error:
            self._logger.error("cannot read the settings again: nothing changes", error=str(error))
            return Reread(refused=f"cannot read the settings again, nothing changes: {error}")
        self.use(merged)
        self._logger.info(
            "read the settings again",
            log_level=merged.log_level,
            log_format=merged.log_format,
            changed=found.changed,
            need_a_restart=found.need_a_restart,
        )
        return found

    def use(self, settings: Settings) -> None:
        """Has the supervisor, and the actors that it starts, use these settings."""
        world = self._world
        world.settings = settings
        self.publish()
        configure(world.store_name, "supervisor", settings.log_level, settings.log_format)


def check_admin_group(name: str) -> None:
    """Raises StoreError for a group that this machine does not know."""
    try:
        if name:
            grp.getgrnam(name)
    except KeyError:
        raise StoreError(
            f'admin_group = "{name}": this machine has no such group; make it, or name another'
        ) from None


def compare(now: Settings, fresh: Settings) -> Reread:
    """What differs, and which actors have to be replaced for it."""
    names = [n for n in Settings.__struct_fields__ if getattr(fresh, n) != getattr(now, n)]
    live = [name for name in names if name in LIVE]
    readers = {actor for name in live for actor in LIVE[name]}
    return Reread(
        changed=tuple(live),
        need_a_restart=tuple(name for name in names if name not in LIVE),
        replace=tuple(actor for actor in ACTORS if actor in readers),
    )


def merge(now: Settings, fresh: Settings) -> Settings:
    """`now` with what `fresh` may change at run time. Raises SettingError for values that do not go
    with those that need a restart.
    """
    changes = {name: getattr(fresh, name) for name in LIVE}
    return msgspec.structs.replace(now, **changes)
