"""Decisions about transactions: records of the topic rmq_sys_silomq_trans_end.

A producer puts its decision there through its own ring. So the decision is as durable as a message,
and no process need be asked. The topic is ours: RocketMQ's broker acts on END_TRANSACTION at once.
Each record has these properties, all of them decimal numbers but the first two:

==========================  ==================================================================
property                    meaning
==========================  ==================================================================
PGROUP                      the producer group of the transaction
UNIQ_KEY                    that of the message; may be missing
TRAN_STATE_TABLE_OFFSET     queue offset of a half of the transaction
COMMIT_LOG_OFFSET           log offset of that half
COMMIT_OR_ROLLBACK          8 to commit, 12 to roll back, as in END_TRANSACTION
==========================  ==================================================================
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..names import TRANS_END_TOPIC
from ..record.format import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, encode_record
from ..record.ids import Host
from ..record.properties import TAGS, UNIQ_KEY, encode_properties
from .half import PRODUCER_GROUP

STATE_OFFSET: Final = "TRAN_STATE_TABLE_OFFSET"
LOG_OFFSET: Final = "COMMIT_LOG_OFFSET"
DECISION: Final = "COMMIT_OR_ROLLBACK"
#: The properties that make a decision, as `_parts.screen` takes them, and the kinds.
RAW_NAMES: Final = tuple(
    name.encode() for name in (PRODUCER_GROUP, STATE_OFFSET, LOG_OFFSET, DECISION)
)
KINDS: Final = (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)
_TEXTS: Final = {TRANSACTION_COMMIT: "commit", TRANSACTION_ROLLBACK: "rollback"}


class Decision(NamedTuple):
    """What is to become of a transaction. `queue_offset` and `offset` are those of a half of it, in
    the half queue and in the log.
    """

    commit: bool
    queue_offset: int
    offset: int
    group: str
    key: str


def encode_decision(
    decision: Decision,
    *,
    born_ms: int,
    born_host: Host,
    store_host: Host,
    record_crc: bool,
) -> bytes:
    """The record of a decision, for queue 0 of the topic. Raises IllegalMessage for names that no
    property can hold.
    """
    kind = TRANSACTION_COMMIT if decision.commit else TRANSACTION_ROLLBACK
    properties = {
        PRODUCER_GROUP: decision.group,
        UNIQ_KEY: decision.key or None,
        STATE_OFFSET: str(decision.queue_offset),
        LOG_OFFSET: str(decision.offset),
        DECISION: str(kind),
        TAGS: _TEXTS[kind],
    }
    return encode_record(
        topic=TRANS_END_TOPIC.encode(),
        body=_TEXTS[kind].encode(),
        properties=encode_properties(properties),
        born_timestamp=born_ms,
        born_host=born_host,
        store_host=store_host,
        record_crc=record_crc,
    )
