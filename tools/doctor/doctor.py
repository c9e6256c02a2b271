"""All checks of `silo doctor`, in the order in which they are shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ...store.disk.files import Folder
from . import clock, kernel, limits, memory, network, place, stores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...conf.settings import Settings
    from .findings import Finding


def examine(settings: Settings, broker_port: int) -> Iterator[Finding]:
    """Looks at this machine, and at the store in `settings.store_path`, which may run, be stopped
    or not exist. `broker_port` is where its broker would listen. Changes nothing.
    """
    path = os.fspath(settings.store_path)
    with stores.opened(path) as root:
        yield from _examine(settings, path, root, broker_port)


def _examine(
    settings: Settings, path: str, root: Folder | None, broker_port: int
) -> Iterator[Finding]:
    machine = stores.look()
    mine = stores.StoreHere.look(path, root, machine)
    yield mine.finding()
    yield from limits.check(settings, mine.pid)
    yield from kernel.check()
    yield from memory.check(settings, machine, mine)
    yield from stores.check_leftovers(machine, mine)
    yield from place.check(settings, path, root, is_mine=mine.runs)
    yield from clock.check(root, mine)
    yield from stores.check_others(machine, mine, path)
    yield network.check(broker_port)
