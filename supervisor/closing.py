"""The last steps of a store that stops: what it removes, and what it says."""

from __future__ import annotations

import os

from ..actors.actor import World
from ..conf.logging import get_logger, tell_repeats
from ..shm import segments
from ..store.disk.paths import ABORT
from . import listener
from .broker import Broker


def close_store(world: World, broker: Broker, lock: int, *, clean: bool) -> None:
    """Removes the socket, the shared memory (but for a pool whose bytes could not be written) and,
    if all is durable, `abort` and unused log files. Gives up the store's `lock`.

    `clean` says whether all actors have ended by themselves.
    """
    logger = get_logger()
    control = world.control
    end = control.load("wrote")
    clean = clean and end == control.load("flushed") == control.load("dispatched")
    if clean:
        try:
            _leave_clean(world, end)
        except OSError as error:  # somebody took the folder away, or the file system
            clean = False
            logger.error(
                "cannot mark this stop as clean: the next start checks the end of the log; look "
                "whether the store's folder is still there",
                error=str(error),
            )
    broker.close_all()
    listener.close(world.listener, world.folders)
    rest = end - control.load("committed") if world.pool else 0
    if rest:
        # As after a kill of all processes: the next start puts them into the log.
        logger.error(
            "the log lacks messages of the pool: they wait in memory for the next start",
            bytes=rest,
        )
    else:
        segments.remove_all(world.store_id)
    os.close(lock)
    logger.info("store stopped", clean=clean, log_end=end)
    tell_repeats(everything=True)


def _leave_clean(world: World, end: int) -> None:
    """Removes unused log files and `abort` of a store whose log ends at `end`. Raises OSError."""
    log = world.log
    log.remove_from(log.base_of(end) + (0 if end % log.file_size == 0 else log.file_size))
    try:
        log.unwrite_from(end)
    except OSError as error:  # it would only save the next start some time
        get_logger().warning("cannot mark the log's end as unwritten", error=str(error))
    world.folders.root.unlink(ABORT)
