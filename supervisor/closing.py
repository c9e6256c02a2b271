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
        log = world.log
        used = log.base_of(end) if end % log.file_size == 0 else log.base_of(end) + log.file_size
        log.remove_from(used)
        try:
            log.unwrite_from(end)
        except OSError as error:  # it would only save the next start some time
            logger.warning("cannot mark the log's end as unwritten", error=str(error))
        world.folders.root.unlink(ABORT)
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
