"""The table of settings: for each a field, its kind, its default, and the reason for the default.

Names are RocketMQ's in Python spelling, with the unit at the end if RocketMQ leaves it out. The
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
    DelayLevels,
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

#: RocketMQ's file sizes are Java ints.
JAVA_INT_MAX: Final = 2**31 - 1
QUEUE_ENTRY: Final = 20


class FlushDiskType(enum.StrEnum):
    """Whether a put waits until the page cache has the message, or until the disk has it."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class LogLevel(enum.StrEnum):
    """The lowest level of the lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.StrEnum):
    """The format of log lines. AUTO is CONSOLE on a terminal and JSON elsewhere."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one store, each with its kind and its default, not checked. `Settings` checks
    them.
    """

    store_path: Annotated[
        Path,
        Folder(
            "The default is a folder in the working directory. The systemd unit sets a fixed path.",
            "storePathRootDir",
        ),
    ] = Path("store")
    store_host: Annotated[
        str,
        Address(
            "The store host in every record and message id. Nothing listens at this address.",
            "brokerIP1",
        ),
    ] = "127.0.0.1"
    store_port: Annotated[
        int,
        Number(
            "port",
            0,
            65535,
            "RocketMQ's default. The port in every record and message id. Nothing listens at it.",
            "listenPort",
        ),
    ] = 10911
    socket_group: Annotated[
        str,
        Text(
            r"|[a-z_][a-z0-9_.-]{0,31}",
            "a group of this machine, or empty",
            "Members of this group may connect and read the store's files, beside the store's own "
            "user and root. Empty: no group.",
        ),
    ] = ""
    acl_enable: Annotated[
        bool,
        Switch(
            "Only the store's user, root and admin_group alter topics, groups and offsets. If "
            "false, every client may, as with RocketMQ's default.",
            "aclEnable",
        ),
    ] = True
    admin_group: Annotated[
        str,
        Text(
            r"|[a-z_][a-z0-9_.-]{0,31}",
            "a group of this machine, or empty",
            "Members of this group may alter topics, groups and offsets, beside the store's own "
            "user and root. They must be in socket_group too. Empty: no group.",
        ),
    ] = ""

    mapped_file_size_commit_log: Annotated[
        int,
        Size(
            64 * KIB,
            2 * GIB - PAGE,
            "RocketMQ's default. Files are mapped, so sizes are whole pages. RocketMQ uses 31-bit "
            "sizes.",
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
            "RocketMQ's default: 300,000 entries of 20 bytes. Rounded up to whole entries, as in "
            "RocketMQ.",
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
            "RocketMQ's default. The hash slots of an index file: a quarter of its entries.",
            "maxHashSlotNum",
        ),
    ] = 5_000_000
    max_index_num: Annotated[
        int,
        Number(
            "entries",
            2,
            JAVA_INT_MAX // 20,
            "RocketMQ's default. The entries of an index file. Entry 0 is never used.",
            "maxIndexNum",
        ),
    ] = 20_000_000
    allocate_ahead_files: Annotated[
        int,
        Number(
            "files",
            1,
            8,
            "RocketMQ also makes two files ahead. Here that is the most: a file is made when the "
            "fill level and the rate say that it will be needed. It takes its whole size at once.",
        ),
    ] = 2
    warm_mapped_file_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's default is false, because appends wait for it. Here another process does "
            "it, in a window ahead of append: 128 MiB, more after a high rate.",
            "warmMapedFileEnable",
            "warmMappedFileEnable",
        ),
    ] = True
    lock_mapped_file_enable: Annotated[
        bool,
        Switch(
            "RocketMQ locks whole files. Here the window ahead of append is locked. If the limit "
            "of locked memory forbids it, one warning follows."
        ),
    ] = True

    max_message_size: Annotated[
        int,
        Size(
            10,
            GIB,
            "RocketMQ's default. The largest record must fit in a commit-log file. With small "
            "files the default is lowered.",
            "maxMessageSize",
        ),
    ] = DEFAULT_MAX_MESSAGE_SIZE
    message_index_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's default. Without an index no message is found by key.", "messageIndexEnable"
        ),
    ] = True
    enabled_append_prop_crc: Annotated[
        bool,
        Switch(
            "RocketMQ's default. The property __CRC32# is a checksum of the whole record. It "
            "takes 20 bytes.",
            "enabledAppendPropCRC",
        ),
    ] = False
    check_crc_on_recover: Annotated[
        bool,
        Switch(
            "RocketMQ's default. Without it a start does not notice damaged bodies.",
            "checkCRCOnRecover",
        ),
    ] = True

    transaction_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's default. So long after a half message was stored its producers are asked "
            "what became of the transaction, if nobody has said it.",
            "transactionTimeOut",
        ),
    ] = 6000
    transaction_check_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's default since 5.1. They are asked again after this time.",
            "transactionCheckInterval",
        ),
    ] = 30_000
    transaction_check_max: Annotated[
        int,
        Number(
            "checks",
            1,
            10_000,
            "RocketMQ's default. A transaction that stays open after so many checks is given up: "
            "its message goes to TRANS_CHECK_MAX_TIME_TOPIC.",
            "transactionCheckMax",
        ),
    ] = 15
    transaction_op_msg_max_size: Annotated[
        int,
        Size(
            1,
            4096,
            "RocketMQ's default. An op record names as many transactions that have ended as fit. "
            "RocketMQ 4 reads those that name one: set it to 1 before you go back to it.",
            "transactionOpMsgMaxSize",
        ),
    ] = 4096

    message_delay_level: Annotated[
        tuple[int, ...],
        DelayLevels(
            "RocketMQ's default. How long a message with delay level 1, 2, and so on waits. Set it "
            "as it was in RocketMQ before the store takes over files of RocketMQ.",
            "messageDelayLevel",
        ),
    ] = (
        *(1000 * s for s in (1, 5, 10, 30)),
        *(60_000 * m for m in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
        *(3_600_000 * h for h in (1, 2)),
    )

    enable_lmq: Annotated[
        bool,
        Switch(
            "RocketMQ's default. Light queues (%LMQ%...) are made when a message names them, or a "
            "reader opens them.",
            "enableLmq",
        ),
    ] = False
    enable_multi_dispatch: Annotated[
        bool,
        Switch(
            "RocketMQ's default. With enable_lmq, a message with the property "
            "INNER_MULTI_DISPATCH is put into the light queues that it names. Those that RocketMQ "
            "put there are served in any case.",
            "enableMultiDispatch",
        ),
    ] = False

    auto_create_topic_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's default. A producer that opens a missing topic makes it.",
            "autoCreateTopicEnable",
        ),
    ] = True
    default_topic_queue_nums: Annotated[
        int,
        Number(
            "queues",
            1,
            1024,
            "RocketMQ's broker allows 8, but its producers ask for 4, so a new topic has 4 queues "
            "there.",
            "defaultTopicQueueNums",
        ),
    ] = 4
    max_topics: Annotated[
        int,
        Number(
            "topics",
            1,
            1_000_000,
            "Sets the size of the shared topic table. Twice the 10,000 topics of the largest test.",
        ),
    ] = 20_000
    max_queues: Annotated[
        int,
        Number(
            "queues",
            1,
            4_194_304,
            "Sets the size of the shared topic table. Three times the design goal of 40,000 "
            "queues.",
        ),
    ] = 131_072
    max_sessions: Annotated[
        int,
        Number(
            "sessions",
            1,
            65_536,
            "Each session takes three descriptors in the supervisor, and a bitmap in the topic "
            "table.",
        ),
    ] = 1024
    reserved_sessions: Annotated[
        int,
        Number(
            "sessions",
            0,
            65_536,
            "So many of max_sessions, but at most half of them, are kept for the store's user and "
            "root. So `silo status` works when clients have taken all others.",
        ),
    ] = 8
    max_sessions_per_uid: Annotated[
        int,
        Number(
            "sessions",
            0,
            65_536,
            "The most sessions of one user, other than the store's own and root. 0: half of "
            "max_sessions, so that no user keeps all others out.",
        ),
    ] = 0
    max_ring_bytes_per_uid: Annotated[
        int,
        Size(
            0,
            1024 * GIB,
            "The most shared memory for the rings of one user, other than the store's own and "
            "root. Bytes in flight lie in rings, so it limits them too. 0: no limit. The default "
            "is 256 rings of the default size.",
        ),
    ] = 4 * GIB
    max_topics_per_uid: Annotated[
        int,
        Number(
            "topics",
            0,
            1_000_000,
            "The most topics that one user may have made, other than the store's own and root. "
            "Retry topics of groups count. 0: no limit. The default leaves three quarters of "
            "max_topics to others.",
        ),
    ] = 5000
    max_groups_per_uid: Annotated[
        int,
        Number(
            "groups",
            0,
            1_000_000,
            "The most consumer groups that one user may have made, other than the store's own and "
            "root. 0: no limit. A clustering group has a retry topic, which max_topics_per_uid "
            "counts.",
        ),
    ] = 5000
    ring_size: Annotated[
        int,
        Size(
            64 * KIB,
            2 * GIB - PAGE,
            "The ring of a producer that names no size. A message or batch takes at most half of "
            "it.",
            multiple=PAGE,
        ),
    ] = 16 * MIB
    ring_size_max: Annotated[
        int,
        Size(
            64 * KIB,
            2 * GIB - PAGE,
            "The most shared memory that a producer may ask for.",
            multiple=PAGE,
        ),
    ] = 256 * MIB

    append_batch_bytes: Annotated[
        int,
        Size(
            4 * KIB,
            64 * MIB,
            "How much append publishes at once. Smaller batches cost throughput. With larger ones "
            "producers wait longer, and a batch no longer fits in the CPU's cache.",
        ),
    ] = 256 * KIB
    append_spin_us: Annotated[
        int,
        Duration(
            "us",
            0,
            10_000,
            "About as long as two processes take to wake each other. With a shorter spin append "
            "and a producer would do that for each message. A longer one takes a core from "
            "others.",
        ),
    ] = 50
    reput_spin_us: Annotated[
        int,
        Duration(
            "us",
            0,
            10_000,
            "After it has woken a reader, reput spins for the next message, which then needs no "
            "wake-up of reput.",
        ),
    ] = 50
    producer_spin_us: Annotated[
        int,
        Duration(
            "us",
            0,
            10_000,
            "Most results arrive within this time. On two cores, longer spinning takes CPU time "
            "from append.",
        ),
    ] = 20

    flush_disk_type: Annotated[
        FlushDiskType,
        Choice(
            FlushDiskType,
            "RocketMQ's default. An acknowledged message survives the death of all processes "
            "under ASYNC_FLUSH, and a power cut under SYNC_FLUSH.",
            "flushDiskType",
        ),
    ] = FlushDiskType.ASYNC_FLUSH
    sync_flush_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            10 * 60_000,
            "RocketMQ's default. After this time a put returns FLUSH_DISK_TIMEOUT, and the "
            "message stays in the log.",
            "syncFlushTimeout",
        ),
    ] = 5000
    flush_interval_commit_log_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            60_000,
            "RocketMQ's default. How often the log is synced under ASYNC_FLUSH, if enough is new.",
            "flushIntervalCommitLog",
        ),
    ] = 500
    flush_commit_log_least_pages: Annotated[
        int,
        Number(
            "pages",
            0,
            262_144,
            "RocketMQ's default, in pages of 4 KiB. Less than this is synced at the thorough "
            "interval.",
            "flushCommitLogLeastPages",
        ),
    ] = 4
    flush_commit_log_thorough_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's default. After this time even one byte is synced.",
            "flushCommitLogThoroughInterval",
        ),
    ] = 10_000
    flush_consumer_offset_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            100,
            600_000,
            "RocketMQ's default. How often config/consumerOffset.json is replaced. The ack file of "
            "a member has each acknowledgement at once.",
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
            "does not give back a queue within this time is expelled from its group.",
        ),
    ] = 60_000
    consumer_stopped_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            3000,
            3_600_000,
            "A consumer whose process is stopped (SIGSTOP, debugger) is expelled after this time, "
            "when its queues are wanted. One that is busy says so every second.",
        ),
    ] = 10_000
    flush_interval_consume_queue_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            60_000,
            "RocketMQ's default. How often queues are synced. They can be rebuilt from the log, so "
            "they are less urgent.",
            "flushIntervalConsumeQueue",
        ),
    ] = 1000
    flush_consume_queue_least_pages: Annotated[
        int,
        Number(
            "pages",
            0,
            262_144,
            "RocketMQ's default, in pages of 4 KiB. Less waits for the thorough interval.",
            "flushConsumeQueueLeastPages",
        ),
    ] = 2
    flush_consume_queue_thorough_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's default. Bounds how much of the log a start after a power cut dispatches "
            "again.",
            "flushConsumeQueueThoroughInterval",
        ),
    ] = 60_000
    transient_store_pool_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's default. With a pool, puts do not wait for the page cache, but each "
            "message is copied once more.",
            "transientStorePoolEnable",
        ),
    ] = False
    transient_store_pool_size: Annotated[
        int,
        Number(
            "buffers",
            1,
            64,
            "RocketMQ's default. Each buffer is as large as a commit-log file, and is locked in "
            "memory.",
            "transientStorePoolSize",
        ),
    ] = 5
    commit_interval_commit_log_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            60_000,
            "RocketMQ's default. How often the pool is written to the commit log.",
            "commitIntervalCommitLog",
        ),
    ] = 200
    commit_commit_log_least_pages: Annotated[
        int,
        Number(
            "pages",
            0,
            262_144,
            "RocketMQ's default, in pages of 4 KiB. Less waits for the thorough interval.",
            "commitCommitLogLeastPages",
        ),
    ] = 4
    commit_commit_log_thorough_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's default. After this time even one byte is written to the commit log.",
            "commitCommitLogThoroughInterval",
        ),
    ] = 200

    max_transfer_bytes_on_message_in_memory: Annotated[
        int,
        Size(
            1,
            JAVA_INT_MAX,
            "RocketMQ's default. The most bytes that one get_message returns; the first message "
            "may exceed it.",
            "maxTransferBytesOnMessageInMemory",
        ),
    ] = 256 * KIB
    max_transfer_count_on_message_in_memory: Annotated[
        int,
        Number(
            "messages",
            1,
            JAVA_INT_MAX,
            "RocketMQ's default. The most messages that one get_message returns.",
            "maxTransferCountOnMessageInMemory",
        ),
    ] = 32
    max_transfer_bytes_on_message_in_disk: Annotated[
        int,
        Size(
            1,
            JAVA_INT_MAX,
            "RocketMQ's default. The same for messages that are read from the disk. It is "
            "smaller, because such reads slow the disk down for all.",
            "maxTransferBytesOnMessageInDisk",
        ),
    ] = 64 * KIB
    max_transfer_count_on_message_in_disk: Annotated[
        int,
        Number(
            "messages",
            1,
            JAVA_INT_MAX,
            "RocketMQ's default. The most messages, if they are read from the disk.",
            "maxTransferCountOnMessageInDisk",
        ),
    ] = 8
    access_message_in_memory_max_ratio: Annotated[
        int,
        Number(
            "%",
            0,
            100,
            "RocketMQ's default. As much of the log's end as this part of the machine's memory "
            "counts as being in memory.",
            "accessMessageInMemoryMaxRatio",
        ),
    ] = 40
    max_msgs_num_batch: Annotated[
        int,
        Number(
            "messages",
            1,
            JAVA_INT_MAX,
            "RocketMQ's default. The most messages that a query by key returns under RocketMQ's "
            "rules.",
            "maxMsgsNumBatch",
        ),
    ] = 64

    clean_resource_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            1,
            DAY_MS,
            "RocketMQ's default. How often clean looks at the disks and for expired files.",
            "cleanResourceInterval",
        ),
    ] = 10_000
    delete_when: Annotated[
        str,
        Text(
            r"([01][0-9]|2[0-3])(;([01][0-9]|2[0-3]))*",
            'hours of local time, two digits each, with `;` between them: "04", "04;16"',
            "RocketMQ's default. Removing large files keeps the disk busy, so it is done at night.",
            "deleteWhen",
        ),
    ] = "04"
    file_reserved_time_h: Annotated[
        int,
        Duration(
            "h",
            0,
            876_000,
            "The default of RocketMQ's store: three days, that is a weekend and the day after it.",
            "fileReservedTime",
        ),
    ] = 72
    file_reserved_size: Annotated[
        int,
        Size(
            0,
            1 << 50,
            "The oldest files go at any hour while so much of the log follows them, even if they "
            "have not expired. 0: no such limit, as in RocketMQ.",
        ),
    ] = 0
    file_reserved_unconsumed_h: Annotated[
        int,
        Duration(
            "h",
            0,
            876_000,
            "An expired file that a consumer group has not consumed stays until it was last "
            "written so long ago, unless the disk is too full. 0: groups do not count, as in "
            "RocketMQ.",
        ),
    ] = 0
    disk_max_used_space_ratio: Annotated[
        int,
        Number(
            "%",
            10,
            95,
            "RocketMQ's default. Above it expired files are removed at any hour.",
            "diskMaxUsedSpaceRatio",
        ),
    ] = 75
    disk_space_clean_forcibly_ratio: Annotated[
        int,
        Number(
            "%",
            30,
            85,
            "RocketMQ's default. Above it the oldest files are removed even if they have not "
            "expired.",
            "diskSpaceCleanForciblyRatio",
        ),
    ] = 85
    disk_space_warning_level_ratio: Annotated[
        int,
        Number(
            "%",
            35,
            90,
            "RocketMQ's default. Above it puts are refused, so that the disk does not fill.",
            "diskSpaceWarningLevelRatio",
        ),
    ] = 90
    clean_file_forcibly_enable: Annotated[
        bool,
        Switch(
            "RocketMQ's default. If false, no file is removed before it expires, and a full disk "
            "refuses puts.",
            "cleanFileForciblyEnable",
        ),
    ] = True
    delete_file_batch_max: Annotated[
        int,
        Number(
            "files",
            1,
            10_000,
            "RocketMQ's default. The most commit-log files that one run removes.",
            "deleteFileBatchMax",
        ),
    ] = 10
    delete_commit_log_files_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            60_000,
            "RocketMQ's default. The pause between two files, because removing a large one keeps "
            "the disk busy.",
            "deleteCommitLogFilesInterval",
        ),
    ] = 100
    delete_consume_queue_files_interval_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            60_000,
            "RocketMQ's default. The pause between two queues whose files are removed.",
            "deleteConsumeQueueFilesInterval",
        ),
    ] = 100
    destroy_mapped_file_interval_forcibly_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            DAY_MS,
            "RocketMQ's default. An expired file with a reader in it is kept for this time at "
            "most.",
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
            "RocketMQ's default. Puts are refused when append is busy for longer without a "
            "heartbeat. It normally beats every 50 ms.",
            "osPageCacheBusyTimeOutMills",
        ),
    ] = 1000

    heartbeat_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            1500,
            10 * 60_000,
            "Idle processes beat once a second. A process that misses three beats hangs, and is "
            "replaced.",
        ),
    ] = 3000
    restart_backoff_max_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            60_000,
            "The longest wait before a restart. The first restart is at once. A process that "
            "keeps dying must not use up a core.",
        ),
    ] = 1000
    boot_failures_max: Annotated[
        int,
        Number(
            "failures",
            1,
            1000,
            "If a process fails to start so many times in a row, the cause is lasting, and the "
            "store stops.",
        ),
    ] = 5
    stop_timeout_ms: Annotated[
        int,
        Duration(
            "ms",
            100,
            60 * 60_000,
            "The time for the last dispatch and flush. It must be less than TimeoutStopSec of the "
            "systemd unit.",
        ),
    ] = 30_000

    metrics_listen: Annotated[
        str,
        Text(
            r"|unix:[^\x00]{1,107}|(localhost|127(\.[0-9]{1,3}){3}|\[::1\]):[0-9]{1,5}",
            "empty, unix:PATH, or HOST:PORT with a loopback address",
            "Where an exporter for Prometheus listens, which the supervisor starts and watches. "
            "The systemd unit has no network: use unix:PATH there. Empty: no exporter.",
        ),
    ] = ""
    metrics_rocketmq_names: Annotated[
        bool,
        Switch("That exporter also gives the values under the names of RocketMQ's exporter."),
    ] = False
    slow_operation_ms: Annotated[
        int,
        Duration(
            "ms",
            0,
            DAY_MS,
            "A step that takes longer (append, a sync, making a file) is told in the log with its "
            "stage. It is far above what a sound disk needs. 0: none is told.",
        ),
    ] = 1000
    log_level: Annotated[
        LogLevel,
        Choice(
            LogLevel,
            "At this level the log has starts, stops and faults, and no line for each message.",
        ),
    ] = LogLevel.INFO
    log_format: Annotated[LogFormat, Choice(LogFormat, "Text on a terminal, JSON elsewhere.")] = (
        LogFormat.AUTO
    )

    @property
    def sync_flush(self) -> bool:
        """Whether a put waits for the disk (SYNC_FLUSH)."""
        return self.flush_disk_type == FlushDiskType.SYNC_FLUSH


@functools.cache
def kinds() -> dict[str, Kind]:
    """The kind of each setting by its name, in the order of the fields."""
    return kinds_of(Fields)


def kinds_of(fields: type[msgspec.Struct]) -> dict[str, Kind]:
    """The kind of each field of a table of settings, in their order."""
    hints = get_type_hints(fields, include_extras=True)
    return {name: hints[name].__metadata__[0] for name in fields.__struct_fields__}
