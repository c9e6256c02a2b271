"""The settings that may change while a store runs, and the actors that read each of them.

Such an actor reads them when it begins. So a changed setting takes effect when a new process takes
the actor's place, which costs some milliseconds and no message (`supervisor/live_settings.py`). An
empty tuple: no actor has to be replaced for it.

All other settings need a restart of the store. They say what lies on the disk or in shared memory,
what a client was told when it connected, or what several processes must agree on.
"""

from __future__ import annotations

from typing import Final

_CLEAN: Final = (
    *("clean_file_forcibly_enable", "clean_resource_interval_ms", "delete_when"),
    *("delete_commit_log_files_interval_ms", "delete_consume_queue_files_interval_ms"),
    *("delete_file_batch_max", "destroy_mapped_file_interval_forcibly_ms"),
    *("disk_max_used_space_ratio", "disk_space_clean_forcibly_ratio"),
    *("disk_space_warning_level_ratio", "file_reserved_size", "file_reserved_unconsumed_h"),
)
_FLUSH: Final = (
    *("flush_interval_commit_log_ms", "flush_commit_log_least_pages"),
    *("flush_commit_log_thorough_interval_ms", "flush_interval_consume_queue_ms"),
    *("flush_consume_queue_least_pages", "flush_consume_queue_thorough_interval_ms"),
)
_COMMIT: Final = (
    *("commit_interval_commit_log_ms", "commit_commit_log_least_pages"),
    "commit_commit_log_thorough_interval_ms",
)
_REGISTRY: Final = (
    *("acl_enable", "admin_group", "auto_create_topic_enable", "max_sessions_per_uid"),
    *("max_ring_bytes_per_uid", "max_topics_per_uid", "max_groups_per_uid"),
    *("reserved_sessions", "ring_size", "consumer_release_timeout_ms"),
    *("consumer_stopped_timeout_ms", "flush_consumer_offset_interval_ms"),
)
_TRANSACTIONS: Final = (
    *("transaction_timeout_ms", "transaction_check_interval_ms", "transaction_check_max"),
    "transaction_op_msg_max_size",
)

LIVE: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("log_level", "log_format"), ()),
    # The supervisor itself reads these.
    **dict.fromkeys(("restart_backoff_max_ms", "boot_failures_max", "stop_timeout_ms"), ()),
    **dict.fromkeys(("metrics_listen", "metrics_rocketmq_names"), ()),
    **dict.fromkeys(_CLEAN, ("clean",)),
    **dict.fromkeys(_FLUSH, ("flush",)),
    **dict.fromkeys(_COMMIT, ("commit",)),
    **dict.fromkeys(_REGISTRY, ("registry",)),
    **dict.fromkeys(_TRANSACTIONS, ("transactions",)),
    "slow_operation_ms": ("append", "commit", "flush", "reput", "allocate", "clean"),
    "file_reserved_time_h": ("clean", "transactions"),
    "allocate_ahead_files": ("allocate",),
    "warm_mapped_file_enable": ("allocate",),
    "append_spin_us": ("append",),
    "append_batch_bytes": ("append",),
    "reput_spin_us": ("reput",),
    "default_topic_queue_nums": ("registry", "schedule", "transactions"),
}
