"""Settings of stores for tests: small files and tables, so that a store starts quickly, takes few
megabytes, and rolls its files after few messages.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from silomq.conf import settings as conf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from silomq.conf.settings import Settings

#: What StoreProcess takes if it is not told otherwise: a store takes 3 MB of disk.
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 40960,
    "max_hash_slot_num": 1000,
    "max_index_num": 8000,
    "max_message_size": 1 << 18,
    "max_topics": 128,
    "max_queues": 1024,
    "max_sessions": 64,
    "lock_mapped_file_enable": "false",
    # A machine whose disk is rather full must not cost a test its messages.
    "clean_file_forcibly_enable": "false",
}
#: Files as small as the limits that are shipped allow, for tests that try those limits: 30 MB.
SHIPPED_LIMITS: dict[str, Any] = {
    "mapped_file_size_commit_log": 8 << 20,
    "max_hash_slot_num": 10_000,
    "max_index_num": 40_000,
    "clean_file_forcibly_enable": "false",
}
#: Files so small that commit log, queues and index all roll within seconds; for tests that look at
#: every disk operation.
ROLLING: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 17,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 200,
    "max_index_num": 600,
    "max_message_size": 1 << 16,
    "max_topics": 32,
    "max_queues": 256,
    "max_sessions": 16,
    "default_topic_queue_nums": 3,
    "lock_mapped_file_enable": "false",
    "flush_interval_commit_log_ms": 20,
    "flush_commit_log_thorough_interval_ms": 200,
    "flush_interval_consume_queue_ms": 30,
    "flush_consume_queue_thorough_interval_ms": 100,
}
#: Files of a store that cleans itself: a queue file holds a hundred entries.
LOG_FILE = 65536
QUEUE_FILE = 2000


def hour(ahead: int) -> str:
    """A value of delete_when, so many hours from now."""
    return f"{time.localtime(time.time() + 3600 * ahead).tm_hour:02d}"


#: Tiny files that expire at once; clean runs every 50 ms and flush soon makes all durable.
_CLEANED: dict[str, Any] = {
    "mapped_file_size_commit_log": LOG_FILE,
    "mapped_file_size_consume_queue": QUEUE_FILE,
    "max_message_size": 16384,
    "max_hash_slot_num": 50,
    "max_index_num": 500,
    "file_reserved_time_h": 0,
    "clean_resource_interval_ms": 50,
    "delete_commit_log_files_interval_ms": 1,
    "delete_consume_queue_files_interval_ms": 1,
    "flush_interval_commit_log_ms": 10,
    "flush_interval_consume_queue_ms": 10,
    "flush_consume_queue_thorough_interval_ms": 20,
}
#: Cleans whatever has expired, all the time (at every hour: a test may run across one).
ALWAYS = {**_CLEANED, "delete_when": ";".join(f"{h:02d}" for h in range(24))}
#: Cleans only when it is asked to.
BY_HAND = {**_CLEANED, "delete_when": hour(12)}


def pairs(settings: Mapping[str, object]) -> list[str]:
    """NAME=VALUE, as the supervisor's command line takes settings."""
    return [f"{name}={value}" for name, value in settings.items()]


def options(settings: Mapping[str, object]) -> list[str]:
    """The options that give a command of `silo` these settings."""
    return [word for pair in pairs(settings) for word in ("--set", pair)]


def load(path: Path, settings: Mapping[str, object]) -> Settings:
    """The settings of a store below `path`, as its supervisor would read them."""
    return conf.load(environ={}, overrides=[f"store_path={path}", *pairs(settings)])
