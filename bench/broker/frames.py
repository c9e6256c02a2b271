"""The frames that the generator of requests patches and sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...broker.wire.codes import RequestCode
from ...broker.wire.command import Command
from ...store.record.properties import UNIQ_KEY
from ._load import Pulls, Sends

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Opaque numbers have nine digits from here on.
FIRST_OPAQUE: Final = 100_000_000
#: Messages that a pull asks for, as a push consumer does.
PULLED_AT_ONCE: Final = 32
_OFFSET: Final = "0000000000"
_KEY_END: Final = "000000000000"
_QUEUE_MARK: Final = "7"
_SUBSCRIPTION_INCLUDED: Final = 4


def _frame(code: int, fields: Mapping[str, object], body: bytes = b"") -> bytes:
    texts = {name: str(value) for name, value in fields.items()}
    return Command(code, texts, body, FIRST_OPAQUE).encode()


def _place(frame: bytes, words: str, digits: str) -> int:
    """Where the digits behind `words` stand in a frame, in which they must stand once."""
    found = f"{words}{digits}".encode()
    assert frame.count(found) == 1, (found, frame)
    return frame.index(found) + len(words)


def sends(topic: str, size: int, queues: int, key_begin: str) -> Sends:
    """Sends of `size` bytes as the Java client makes them. Each has a UNIQ_KEY of its own, which
    begins with the 20 digits `key_begin`.
    """
    key = key_begin + _KEY_END
    fields = {
        "a": "bench-senders", "b": topic, "c": "TBW102", "d": queues, "e": _QUEUE_MARK, "f": 0,
        "g": 1_700_000_000_000, "h": 0, "i": f"{UNIQ_KEY}\x01{key}\x02WAIT\x01true\x02", "j": 0,
        "k": "false", "l": 0, "m": "false", "n": "broker-a",
    }  # fmt: skip
    frame = _frame(RequestCode.SEND_MESSAGE_V2, fields, b"x" * size)
    return Sends(
        frame,
        opaque=_place(frame, '"opaque":', str(FIRST_OPAQUE)),
        queue=_place(frame, '"e":"', _QUEUE_MARK),
        queues=queues,
        key=_place(frame, key_begin, _KEY_END),
    )


def pulls(topic: str, queues: int, count: int) -> Pulls:
    """`count` pulls of all queues in turn, each queue from its beginning on."""
    fields = {
        "consumerGroup": "bench-pullers", "topic": topic, "queueId": _QUEUE_MARK,
        "queueOffset": _OFFSET, "maxMsgNums": PULLED_AT_ONCE, "sysFlag": _SUBSCRIPTION_INCLUDED,
        "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0,
        "expressionType": "TAG",
    }  # fmt: skip
    frame = _frame(RequestCode.PULL_MESSAGE, fields)
    return Pulls(
        frame,
        opaque=_place(frame, '"opaque":', str(FIRST_OPAQUE)),
        queue=_place(frame, '"queueId":"', _QUEUE_MARK),
        queues=queues,
        offset=_place(frame, '"queueOffset":"', _OFFSET),
        each=PULLED_AT_ONCE,
        count=count,
    )
