"""What a store says when it starts."""

from __future__ import annotations

import shlex
from typing import Any

from ..actors.actor import World
from ..actors.descriptors import HOW_TO_RAISE


def say_first_words(world: World, logger: Any) -> None:
    """Logs what recovery found and did, for a new store how to begin, and a limit that is too low
    for the settings.
    """
    path = world.folders.root.path
    if not (world.report["files"] or world.report["topics"]):
        logger.info(
            "this is a new store",
            send=f"silo send orders 'one coffee' --store {shlex.quote(path)}",
            read=f"silo tail orders --store {shlex.quote(path)}",
            look=f"silo status --store {shlex.quote(path)}",
        )
    logger.info("store recovered", path=path, **world.report)
    carries, wanted = world.descriptors.carries, world.settings.max_sessions
    if carries < wanted:
        logger.warning(
            "the limit of open files carries fewer sessions than max_sessions",
            limit=world.descriptors.limit,
            max_sessions=wanted,
            producers_at_most=carries,
            advice=HOW_TO_RAISE,
        )
