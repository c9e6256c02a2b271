"""`read_decision`: decisions about transactions in plain Python, against the compiled reader."""

from __future__ import annotations

from silomq.store.record.format import TRANSACTION_COMMIT, Record
from silomq.store.record.properties import UNIQ_KEY
from silomq.store.transactions.decisions import DECISION, KINDS, LOG_OFFSET, STATE_OFFSET, Decision
from silomq.store.transactions.half import PRODUCER_GROUP


def read_decision(record: Record) -> Decision | None:
    """The decision in a record of the topic; None if there is none in it."""
    found = record.properties
    numbers = []
    for name in (STATE_OFFSET, LOG_OFFSET, DECISION):
        text = found.get(name, "")
        if not (text.isascii() and text.isdigit() and len(text) <= 19):
            return None
        numbers.append(int(text))
    queue_offset, offset, kind = numbers
    if kind not in KINDS or max(queue_offset, offset) >= 2**63:
        return None
    group, key = found.get(PRODUCER_GROUP, ""), found.get(UNIQ_KEY, "")
    return Decision(kind == TRANSACTION_COMMIT, queue_offset, offset, group, key)
