"""Conditions between settings. They are checked for every `Settings` that is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .kinds import SettingError
from .schema import JAVA_INT_MAX

if TYPE_CHECKING:
    from .schema import Fields

#: The most bytes that a record takes beside its body: 91 fixed bytes, 1 more in version 2, two IPv6
#: addresses, a topic of 255 bytes and properties of 32,767 (RocketMQ's `CommitLog.calMsgLength`).
RECORD_OVERHEAD: Final = 91 + 1 + 2 * 12 + 255 + 32_767
#: Bytes that a file keeps free for its end-of-file record (`END_FILE_MIN_BLANK_LENGTH`).
END_OF_FILE: Final = 8


def largest_body(s: Fields) -> int:
    """The largest body, in bytes, whose record fits in a commit-log file with any topic and any
    properties.
    """
    return s.mapped_file_size_commit_log - END_OF_FILE - RECORD_OVERHEAD


def check_relations(s: Fields) -> None:
    """Raises SettingError for values that are valid alone but not together."""
    room = largest_body(s)
    if s.max_message_size > room:
        _refuse(
            s,
            "max_message_size",
            f"at most {room}, so that the largest record (its body and {RECORD_OVERHEAD} bytes)"
            f" fits in mapped_file_size_commit_log = {s.mapped_file_size_commit_log}",
        )
    index_file = 40 + 4 * s.max_hash_slot_num + 20 * s.max_index_num
    if index_file > JAVA_INT_MAX:
        _refuse(
            s,
            "max_index_num",
            f"with max_hash_slot_num = {s.max_hash_slot_num} an index file would have"
            f" {index_file} bytes, at most {JAVA_INT_MAX} are allowed",
        )
    if s.ring_size > s.ring_size_max:
        _refuse(s, "ring_size", f"at most ring_size_max = {s.ring_size_max}")
    if s.disk_space_clean_forcibly_ratio > s.disk_space_warning_level_ratio:
        level = s.disk_space_warning_level_ratio
        _refuse(
            s,
            "disk_space_clean_forcibly_ratio",
            f"at most disk_space_warning_level_ratio = {level}",
        )
    if s.transient_store_pool_enable and s.sync_flush:
        _refuse(
            s,
            "transient_store_pool_enable",
            'the pool needs flush_disk_type = "ASYNC_FLUSH": a sync cannot reach what is still in'
            " the pool",
        )


def _refuse(s: Fields, name: str, allowed: str) -> None:
    raise SettingError(name, getattr(s, name), allowed)
