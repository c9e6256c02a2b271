"""The settings themselves: a field, its kind, its default and the reason for it, and nothing else.

Names are RocketMQ's in Python spelling, with the unit at the end where RocketMQ leaves it out. The
annotated file `silomq.toml` is generated from this module.
"""

from __future__ import annotations

import enum
import functools
from pathlib import Path
from typing import Annotated, Final, get_type_hints

import msgspec

from .kinds import (
    GIB,
    KIB,
    MIB,
    Address,
    Choice,
    Duration,
    Folder,
    Kind,
    Number,
    Size,
    Switch,
    Text,
)

PAGE: Final = 4096
DAY_MS: Final = 86_400_000

DEFAULT_MAX_MESSAGE_SIZE: Final = 4 * MIB

#: RocketMQ holds file sizes in Java ints.
JAVA_INT_MAX: Final = 2**31 - 1
QUEUE_ENTRY: Final = 20


class FlushDiskType(enum.StrEnum):
    """What a put waits for: the page cache, or the disk."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class LogLevel(enum.StrEnum):
    """The least weight of a line that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.StrEnum):
    """What a log line looks like."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one store, each with its kind and its default; `Settings` checks them."""

    store_path: Annotated[
        Path,
        Folder(
            "The store is made where it is started; the systemd unit names a real place.",
            "storePathRootDir",
        ),
    ] = Path("store")
    store_host: Annotated[
        str,
        Address("Part of every record and message id. Producers are on this machine.", "brokerIP1"),
    ] = "127.0.0.1"
    store_port: Annotated[
        int,
        Number(
            "port",
            0,
            65535,
            "Part of every record and message id, as RocketMQ's. Nothing listens there.",
            "listenPort",
        ),
    ] = 10911
    socket_group: Annotated[
        str,
        Text(
            r"|[a-z_][a-z0-9_.-]{0,31}",
            "a group of this machine, or empty",
            "Who may connect beside the store's own user and root: nobody, until named.",
        ),
    ] = ""

    mapped_file_size_commit_log: Annotated[
        int,
        Size(
            64 * KIB,
            2 * GIB - PAGE,
            "RocketMQ's. Files are mapped, so whole pages; RocketMQ holds sizes in 31 bits.",
            "mappedFileSizeCommitLog",
            "mapedFileSizeCommitLog",
            multiple=PAGE,
        ),
    ] = GIB
    mapped_file_size_consume_queue: Annotated[
        int,
        Number(
            "bytes",
            1,
            JAVA_INT_MAX // QUEUE_ENTRY * QUEUE_ENTRY,
            "RocketMQ's 300,000 entries of 20 bytes. Rounded up to whole entries, as there.",
            "mappedFileSizeConsumeQueue",
            "mapedFileSizeConsumeQueue",
        ),
    ] = 6_000_000
    max_hash_slot_num: Annotated[
        int,
        Number(
            "slots",
            1,
            JAVA_INT_MAX // 4,
            "RocketMQ's. Hash slots of an index file; a quarter of its entries.",
            "maxHashSlotNum",
        ),
    ] = 5_000_000
    max_index_num: Annotated[
        int,
        Number(
            "entries",
            2,
            JAVA_INT_MAX // 20,
            "RocketMQ's. Entries of an index file; entry 0 is never used.",
            "maxIndexNum",
        ),
    ] = 20_000_000
    allocate_ahead_files: Annotated[
        int,
        Number(
            "files",
            1,
            8,
            "Two, as RocketMQ asks for the next and the one after it; each takes its whole size.",
        ),
    ] = 2
    warm_mapped_file_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's is false: it warms where appends wait. Here another process does it ahead.",
            "warmMapedFileEnable",
            "warmMappedFileEnable",
        ),
    ] = True
    lock_mapped_file_enable: Annotated[
        bool,
        Switch(
            "RocketMQ locks what it has warmed. Where the limit forbids it: one warning, no error."
        ),
    ] = True

    max_message_size: Annotated[
        int,
        Size(
            10,
            GIB,
            "RocketMQ's. The largest record must fit in a commit-log file; the default gives way.",
            "maxMessageSize",
        ),
    ] = DEFAULT_MAX_MESSAGE_SIZE
    message_index_enable: Annotated[
        bool, Switch("RocketMQ's. Without an index nothing is found by key.", "messageIndexEnable")
    ] = True
    enabled_append_prop_crc: Annotated[
        bool,
        Switch(
            "RocketMQ's. The property __CRC32# guards the whole record; it costs 20 bytes.",
            "enabledAppendPropCRC",
        ),
    ] = False
    check_crc_on_recover: Annotated[
        bool, Switch("RocketMQ's. Without it a damaged body passes for whole.", "checkCRCOnRecover")
    ] = True

    auto_create_topic_enable: Annotated[
        bool, Switch("RocketMQ's. The first message of a topic makes it.", "autoCreateTopicEnable")
    ] = True
    default_topic_queue_nums: Annotated[
        int,
        Number(
            "queues",
            1,
            1024,
            "RocketMQ's broker has 8, its producers ask for 4 of them: 4 is what users see there.",
            "defaultTopicQueueNums",
        ),
    ] = 4
    max_topics: Annotated[
        int,
        Number(
            "topics",
            1,
            1_000_000,
            "Bounds the shared topic table. Room for the 10,000 topics of the tests, twice.",
        ),
    ] = 20_000
    max_queues: Annotated[
        int,
        Number(
            "queues",
            1,
            4_194_304,
            "Bounds the shared topic table. 40,000 queues are a goal of the design, times three.",
        ),
    ] = 131_072
    max_sessions: Annotated[
        int,
        Number(
            "sessions",
            1,
            65_536,
            "Each holds three descriptors in the supervisor, and a bitmap of its topics.",
        ),
    ] = 1024
    ring_size: Annotated[
        int,
        Size(
            64 * KIB,
            2 * GIB - PAGE,
            "Of a producer that asks for none: half of it bounds a message or batch.",
            multiple=PAGE,
        ),
    ] = 16 * MIB
    ring_size_max: Annotated[
        int,
        Size(
            64 * KIB,
            2 * GIB - PAGE,
            "A producer may ask for this much shared memory, and no session gets more.",
            multiple=PAGE,
        ),
    ] = 256 * MIB

    append_batch_bytes: Annotated[
        int,
        Size(
            4 * KIB,
            64 * MIB,
            "Published at once: less costs speed, with more producers wait and the cache is left.",
        ),
    ] = 256 * KIB
    append_spin_us: Annotated[
        int,
        Duration(
            "us",
            0,
            10_000,
            "Longer than a process takes to wake up (30-60 us): else two sleepers wake in turn.",
        ),
    ] = 200
    reput_spin_us: Annotated[
        int,
        Duration(
            "us",
            0,
            10_000,
            "For the next message, if a reader was asleep for the last: a wake-up less on its way.",
        ),
    ] = 200
    producer_spin_us: Annotated[
        int,
        Duration(
            "us",
            0,
            10_000,
            "A result mostly comes within it; with two cores longer spinning starves append.",
        ),
    ] = 20

    flush_disk_type: Annotated[
        FlushDiskType,
        Choice(
            FlushDiskType,
            "RocketMQ's. ASYNC_FLUSH survives a dead process, SYNC_FLUSH a dead machine.",
            "flushDiskType",
        ),
    ] = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            10 * 60_000,
            "RocketMQ's. Then a put answers FLUSH_DISK_TIMEOUT, and the message stays in the log.",
            "syncFlushTimeout",
        ),
    ] = 5000
    flush_interval_commit_log_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            60_000,
            "RocketMQ's. Bounds what a power cut takes under ASYNC_FLUSH.",
            "flushIntervalCommitLog",
        ),
    ] = 500
    flush_commit_log_least_pages: Annotated[
        int,
        Number(
            "pages",
            0,
            262_144,
            "RocketMQ's, of 4 KiB. A sync for less waits for the thorough interval.",
            "flushCommitLogLeastPages",
        ),
    ] = 4
    flush_commit_log_thorough_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's. After it even one byte is synced.",
            "flushCommitLogThoroughInterval",
        ),
    ] = 10_000
    flush_consumer_offset_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            100,
            600_000,
            "RocketMQ's. The file is only a copy here: acknowledgements are kept at once.",
            "flushConsumerOffsetInterval",
        ),
    ] = 5000
    consumer_release_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            100,
            3_600_000,
            "As long as RocketMQ's lock on a queue (rebalanceLockMaxLiveTime). A consumer that "
            "does not give back a queue within it is put out of its group.",
        ),
    ] = 60_000
    flush_interval_consume_queue_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            60_000,
            "RocketMQ's. Queues can be rebuilt from the log, so they are less urgent.",
            "flushIntervalConsumeQueue",
        ),
    ] = 1000
    flush_consume_queue_least_pages: Annotated[
        int, Number("pages", 0, 262_144, "RocketMQ's, of 4 KiB.", "flushConsumeQueueLeastPages")
    ] = 2
    flush_consume_queue_thorough_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's. Bounds the log that a start after a crash reads again.",
            "flushConsumeQueueThoroughInterval",
        ),
    ] = 60_000
    transient_store_pool_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's. A pool separates puts from the page cache, at the price of a second copy.",
            "transientStorePoolEnable",
        ),
    ] = False
    transient_store_pool_size: Annotated[
        int,
        Number(
            "buffers",
            1,
            64,
            "RocketMQ's. Each has the size of a commit-log file, in locked memory.",
            "transientStorePoolSize",
        ),
    ] = 5
    commit_interval_commit_log_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            60_000,
            "RocketMQ's. How often the pool is written out.",
            "commitIntervalCommitLog",
        ),
    ] = 200
    commit_commit_log_least_pages: Annotated[
        int, Number("pages", 0, 262_144, "RocketMQ's, of 4 KiB.", "commitCommitLogLeastPages")
    ] = 4
    commit_commit_log_thorough_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's. After it even one byte is written out.",
            "commitCommitLogThoroughInterval",
        ),
    ] = 200

    max_transfer_bytes_on_message_in_memory: Annotated[
        int,
        Size(
            1,
            JAVA_INT_MAX,
            "RocketMQ's. What one get_message gives, beyond its first message.",
            "maxTransferBytesOnMessageInMemory",
        ),
    ] = 256 * KIB
    max_transfer_count_on_message_in_memory: Annotated[
        int,
        Number(
            "messages",
            1,
            JAVA_INT_MAX,
            "RocketMQ's. Whatever number the caller asks for.",
            "maxTransferCountOnMessageInMemory",
        ),
    ] = 32
    max_transfer_bytes_on_message_in_disk: Annotated[
        int,
        Size(
            1,
            JAVA_INT_MAX,
            "RocketMQ's. Less for old messages: a reader behind makes the disk busy for all.",
            "maxTransferBytesOnMessageInDisk",
        ),
    ] = 64 * KIB
    max_transfer_count_on_message_in_disk: Annotated[
        int,
        Number(
            "messages",
            1,
            JAVA_INT_MAX,
            "RocketMQ's. The same for their number.",
            "maxTransferCountOnMessageInDisk",
        ),
    ] = 8
    access_message_in_memory_max_ratio: Annotated[
        int,
        Number(
            "%",
            0,
            100,
            "RocketMQ's. Of the machine's memory: so much of the log's end counts as in memory.",
            "accessMessageInMemoryMaxRatio",
        ),
    ] = 40
    max_msgs_num_batch: Annotated[
        int,
        Number(
            "messages",
            1,
            JAVA_INT_MAX,
            "RocketMQ's. The most that a query by key by its rules gives.",
            "maxMsgsNumBatch",
        ),
    ] = 64

    clean_resource_interval_ms: Annotated[
        int,
        Duration(
            "ms", 1, DAY_MS, "RocketMQ's. How often the disk is looked at.", "cleanResourceInterval"
        ),
    ] = 10_000
    delete_when: Annotated[
        str,
        Text(
            r"([01][0-9]|2[0-3])(;([01][0-9]|2[0-3]))*",
            'hours of local time, two digits each, with `;` between them: "04", "04;16"',
            "RocketMQ's. Unlinking large files costs the disk time; at four few are awake.",
            "deleteWhen",
        ),
    ] = "04"
    file_reserved_time_h: Annotated[
        int,
        Duration(
            "h",
            0,
            876_000,
            "RocketMQ's store keeps three days: a weekend and the day after.",
            "fileReservedTime",
        ),
    ] = 72
    disk_max_used_space_ratio: Annotated[
        int,
        Number(
            "%",
            10,
            95,
            "RocketMQ's. Above it expired files go at any hour.",
            "diskMaxUsedSpaceRatio",
        ),
    ] = 75
    disk_space_clean_forcibly_ratio: Annotated[
        int,
        Number(
            "%",
            30,
            85,
            "RocketMQ's. Above it the oldest files go whether expired or not.",
            "diskSpaceCleanForciblyRatio",
        ),
    ] = 85
    disk_space_warning_level_ratio: Annotated[
        int,
        Number(
            "%",
            35,
            90,
            "RocketMQ's. Above it puts are refused, so that the disk never fills.",
            "diskSpaceWarningLevelRatio",
        ),
    ] = 90
    clean_file_forcibly_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's. Off, no file goes before its time: a full disk then refuses puts instead.",
            "cleanFileForciblyEnable",
        ),
    ] = True
    delete_file_batch_max: Annotated[
        int,
        Number(
            "files",
            1,
            10_000,
            "RocketMQ's, for one run. The next run looks at the disk anew.",
            "deleteFileBatchMax",
        ),
    ] = 10
    delete_commit_log_files_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            60_000,
            "RocketMQ's. Between two files: unlinking a large one keeps the disk busy.",
            "deleteCommitLogFilesInterval",
        ),
    ] = 100
    delete_consume_queue_files_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            60_000,
            "RocketMQ's. Between two queues that lose files.",
            "deleteConsumeQueueFilesInterval",
        ),
    ] = 100
    destroy_mapped_file_interval_forcibly_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            DAY_MS,
            "RocketMQ's. So long a file that is due waits for a slow reader in it, then it goes.",
            "destroyMapedFileIntervalForcibly",
            "destroyMappedFileIntervalForcibly",
        ),
    ] = 120_000
    os_page_cache_busy_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            200,
            10 * 60_000,
            "RocketMQ's. Append stuck for longer: puts are refused. Else it beats every 50 ms.",
            "osPageCacheBusyTimeOutMills",
        ),
    ] = 1000

    heartbeat_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            1500,
            10 * 60_000,
            "Idle processes beat once a second: three missed beats are a hang, not a busy disk.",
        ),
    ] = 3000
    restart_backoff_max_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            60_000,
            "The first restart is at once; a process that keeps dying must not use up a core.",
        ),
    ] = 1000
    boot_failures_max: Annotated[
        int,
        Number(
            "failures",
            1,
            1000,
            "In a row, before an actor has run: the cause is no accident, so the store stops.",
        ),
    ] = 5
    stop_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            100,
            60 * 60_000,
            "Time for a last flush and dispatch. Below the TimeoutStopSec of the systemd unit.",
        ),
    ] = 30_000

    log_level: Annotated[
        LogLevel, Choice(LogLevel, "Starts, stops and faults, nothing per message.")
    ] = LogLevel.INFO
    log_format: Annotated[
        LogFormat, Choice(LogFormat, "Readable on a terminal, JSON elsewhere: who reads decides.")
    ] = LogFormat.AUTO

    @property
    def sync_flush(self) -> bool:
        """Whether a put waits for the disk."""
        return self.flush_disk_type == FlushDiskType.SYNC_FLUSH


@functools.cache
def kinds() -> dict[str, Kind]:
    """The kind of every setting, in the order of the file."""
    hints = get_type_hints(Fields, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in Fields.__struct_fields__}
