"""What `silo dev` runs with where nobody says otherwise: small files, and all that RocketMQ's
clients may ask for. All else is as in any other store or broker, also the largest message.
"""

from __future__ import annotations

from typing import Any, Final

from .kinds import MIB

#: A new store takes 33 MB of disk, two files of the commit log. Queues take what they hold.
STORE: Final[dict[str, Any]] = {
    # A record may take 4 MiB: three of them fit into a file.
    "mapped_file_size_commit_log": 16 * MIB,
    "mapped_file_size_consume_queue": 120_000,
    "max_hash_slot_num": 50_000,
    "max_index_num": 200_000,
    "allocate_ahead_files": 1,
    # Pages that are made ready ahead of the messages would count as memory that is used.
    "warm_mapped_file_enable": False,
    "lock_mapped_file_enable": False,
    "max_topics": 2000,
    "max_queues": 16_384,
    "max_sessions": 128,
    # Messages do not go because the developer's disk is rather full.
    "clean_file_forcibly_enable": False,
    "log_level": "warning",
}
BROKER: Final[dict[str, Any]] = {
    "auto_create_topic_enable": True,
    "auto_create_subscription_group": True,
    "enable_property_filter": True,
    "trace_on": True,
}
