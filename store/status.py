"""The statuses of a put and of a read, as RocketMQ spells and orders them.

The numbers are the positions in RocketMQ's enums (`PutMessageStatus` and `GetMessageStatus` of
org.apache.rocketmq.store, 5.x). Processes exchange them in rings and compiled code compares them,
so they are written out and never change. Spellings are those of 5.x: 4.x wrote
CREATE_MAPEDFILE_FAILED and OS_PAGECACHE_BUSY.
"""

from __future__ import annotations

from enum import IntEnum


class AckLevel(IntEnum):
    """What a message survives once its put is answered.

    MEMORY: the death of all processes, by way of the pool's buffers. APPENDED: the death of all
    processes, because the record is in the page cache. DURABLE: a power cut as well.
    """

    APPENDED = 0
    DURABLE = 1
    MEMORY = 2


class PutMessageStatus(IntEnum):
    """The result of a put. PUT_OK and the FLUSH_ and SLAVE_ statuses mean that it was appended."""

    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1
    FLUSH_SLAVE_TIMEOUT = 2
    SLAVE_NOT_AVAILABLE = 3
    SERVICE_NOT_AVAILABLE = 4
    CREATE_MAPPED_FILE_FAILED = 5
    MESSAGE_ILLEGAL = 6
    PROPERTIES_SIZE_EXCEEDED = 7
    OS_PAGE_CACHE_BUSY = 8
    UNKNOWN_ERROR = 9
    IN_SYNC_REPLICAS_NOT_ENOUGH = 10
    PUT_TO_REMOTE_BROKER_FAIL = 11
    LMQ_CONSUME_QUEUE_NUM_EXCEEDED = 12
    WHEEL_TIMER_FLOW_CONTROL = 13
    WHEEL_TIMER_MSG_ILLEGAL = 14
    WHEEL_TIMER_NOT_ENABLE = 15


class GetMessageStatus(IntEnum):
    """What a read of a queue found. The result that carries it says where the next read begins."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8
    OFFSET_RESET = 9
