"""What RocketMQ's clients write of a message into the trace topic (TraceDataEncoder), as values.

The body of a trace message is text: records that end with 0x02, fields with 0x01 between them. The
first field is the kind. Fields behind these are ignored, and those in brackets may be missing:

==============  =======================================================================
kind            fields
==============  =======================================================================
Pub             time, region, group, topic, id, tags, keys, store host, body size, cost,
                type, [offset id,] success
SubBefore       time, region, group, request id, id, retries, [keys]
SubAfter        request id, id, cost, success, [keys, code, time, group]
EndTransaction  time, region, group, topic, id, tags, keys, store host, type,
                transaction id, state, from a check
Recall          time, region, group, topic, id, success
==============  =======================================================================

Any client may write anything there. What does not fit is counted, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: So many records of one body are looked at, with so many fields, of so many characters.
MOST_RECORDS: Final = 10_000
_MOST_FIELDS: Final = 20
MOST_CHARACTERS: Final = 1024
_END: Final = "\x02"
_BETWEEN: Final = "\x01"
_LEAST_FIELDS: Final = {"Pub": 13, "SubBefore": 7, "SubAfter": 5, "EndTransaction": 13, "Recall": 7}
_TYPES: Final = ("normal", "transaction half", "transaction commit", "delayed", "ordered")
_CODES: Final = ("success", "timeout", "exception", "returned null", "failed")
_MOST_DIGITS: Final = 18


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one record tells. Times are epoch ms by the client's clock. `succeeded` is None while a
    consumer has not come to an end. `request_id` is the same before and after a consumption.
    """

    kind: str
    message_ids: tuple[str, ...]
    at_ms: int | None = None
    group: str | None = None
    topic: str | None = None
    cost_ms: int | None = None
    succeeded: bool | None = None
    result: str | None = None
    retries: int | None = None
    request_id: str | None = None
    store_host: str | None = None
    body_size: int | None = None
    message_type: str | None = None
    offset_message_id: str | None = None
    transaction_id: str | None = None
    state: str | None = None
    from_check: bool | None = None


class Records(NamedTuple):
    """The records of a body, and how many more could not be read."""

    good: list[TraceRecord]
    bad: int


def parse_records(body: bytes) -> Records:
    """The records in the body of a trace message."""
    good: list[TraceRecord] = []
    bad = 0
    texts = body.decode("utf-8", "replace").split(_END, MOST_RECORDS)
    for number, text in enumerate(texts):
        if not text:
            continue
        if number >= MOST_RECORDS:
            bad += 1 + text.rstrip(_END).count(_END)
            break
        try:
            good.append(_record(text))
        except ValueError:
            bad += 1
    return Records(good, bad)


def _record(text: str) -> TraceRecord:
    """One record. Raises ValueError."""
    kind, *fields = text.split(_BETWEEN, _MOST_FIELDS)
    if len(fields) + 1 < _LEAST_FIELDS.get(kind, _MOST_FIELDS + 2):
        raise ValueError(f"{len(fields)} fields of a record {kind[:20]!a}")
    if any(len(field) > MOST_CHARACTERS for field in fields[: _MOST_FIELDS - 1]):
        raise ValueError("a field is too long")
    match kind:
        case "Pub":
            return _published(fields)
        case "SubBefore":
            return TraceRecord(
                kind="consuming", at_ms=_number(fields[0]), group=_name(fields[2]),
                request_id=fields[3], message_ids=_ids(fields[4]), retries=_number(fields[5]),
            )  # fmt: skip
        case "SubAfter":
            return _consumed(fields)
        case "EndTransaction":
            return TraceRecord(
                kind="transaction ended", at_ms=_number(fields[0]), group=_name(fields[2]),
                topic=_name(fields[3]), message_ids=_ids(fields[4]), store_host=fields[7],
                message_type=_word(_TYPES, fields[8]), transaction_id=fields[9], state=fields[10],
                from_check=_truth(fields[11]),
            )  # fmt: skip
        case _:
            return TraceRecord(
                kind="recalled", at_ms=_number(fields[0]), group=_name(fields[2]),
                topic=_name(fields[3]), message_ids=_ids(fields[4]), succeeded=_truth(fields[5]),
            )  # fmt: skip


def _published(fields: Sequence[str]) -> TraceRecord:
    """The clients of RocketMQ 4.4 tell no offset id."""
    old = fields[11] in {"true", "false"}
    return TraceRecord(
        kind="published", at_ms=_number(fields[0]), group=_name(fields[2]),
        topic=_name(fields[3]), message_ids=_ids(fields[4]), store_host=fields[7],
        body_size=_number(fields[8]), cost_ms=_number(fields[9]),
        message_type=_word(_TYPES, fields[10]),
        offset_message_id=None if old else fields[11],
        succeeded=_truth(fields[11] if old else _at(fields, 12)),
    )  # fmt: skip


def _consumed(fields: Sequence[str]) -> TraceRecord:
    at, code = _at(fields, 6), _at(fields, 5)
    return TraceRecord(
        kind="consumed", request_id=fields[0], message_ids=_ids(fields[1]),
        cost_ms=_number(fields[2]), succeeded=_truth(fields[3]),
        result=_word(_CODES, code) if code else None, at_ms=_number(at) if at else None,
        group=_at(fields, 7) or None,
    )  # fmt: skip


def _at(fields: Sequence[str], place: int) -> str:
    return fields[place] if place < len(fields) else ""


def _ids(text: str) -> tuple[str, ...]:
    """The ids of a message, or of all messages of a batch."""
    found = tuple(one for one in text.split(",") if one)
    if not found:
        raise ValueError("no id of a message")
    return found


def _name(text: str) -> str:
    if not text:
        raise ValueError("a name is empty")
    return text


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise ValueError(f"{text[:20]!a} is no number")
    return int(text)


def _truth(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text[:20]!a} is neither true nor false")
    return text == "true"


def _word(words: Sequence[str], text: str) -> str:
    """The word of a number, or the number of one that is not known."""
    number = _number(text)
    return words[number] if number < len(words) else str(number)


def in_order(records: Iterator[tuple[TraceRecord, str]]) -> list[tuple[TraceRecord, str]]:
    """Records with the addresses of their clients, in the order of their times. The end of a
    consumption takes its time and its group from the record of its begin, if it has none.
    """
    found = list(records)
    begins = {one.request_id: one for one, _ in found if one.kind == "consuming"}
    complete = []
    for one, client in found:
        begin = begins.get(one.request_id) if one.kind == "consumed" else None
        changed = one
        if begin is not None:
            end_ms = None if begin.at_ms is None else begin.at_ms + (one.cost_ms or 0)
            changed = msgspec.structs.replace(
                one, at_ms=one.at_ms or end_ms, group=one.group or begin.group,
                retries=begin.retries,
            )  # fmt: skip
        complete.append((changed, client))
    return sorted(complete, key=lambda pair: (pair[0].at_ms or 0, pair[0].kind == "consumed"))
