"""Cancels a message that waits for its time (RocketMQ 5: recall).

A cancel is a message of its own in the timer topic, with the same time: TIMER_DEL_UNIQKEY names the
message to cancel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ...store.errors import IllegalMessage, IllegalQuery
from ...store.names import TIMER_TOPIC
from ...store.record.format import encode_record
from ...store.record.ids import Host
from ...store.record.properties import REAL_QID, REAL_TOPIC, TAGS, UNIQ_KEY, encode_properties
from ...store.status import PutMessageStatus
from ._sender import send_encoded, session_of
from .message_properties import Delayed, timer_out_ms
from .recall_handle import Handle
from .send_result import SendResult

if TYPE_CHECKING:
    from ..arguments import Own
    from ._sender import Sender

# RocketMQ's RecallMessageProcessor gives its cancels this tag and this body.
_TAG: Final = "_RECALL_TAG_"
_BODY: Final = b"0"


def cancel(producer: Sender, message: SendResult | str, timeout: float | Own | None) -> SendResult:
    """See `Producer.cancel`."""
    text = message.recall_handle if isinstance(message, SendResult) else message
    if not isinstance(text, str):
        raise IllegalQuery(
            "only a message that was sent with deliver_at= or delay_ms= can be cancelled: give its "
            "SendResult, or that result's recall_handle"
        )
    handle = Handle.decode(text)
    late = int(time.time() * 1000) - handle.due_ms
    if late >= 0:
        raise IllegalMessage(
            PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL,
            f"message {handle.key} was due {late} ms ago: it has been delivered or will be at once",
        )
    session = session_of(producer)
    config = session.config
    properties = {
        UNIQ_KEY: handle.key,
        TAGS: _TAG,
        REAL_TOPIC: handle.topic,
        REAL_QID: "0",
        "TIMER_OUT_MS": str(timer_out_ms(handle.due_ms)),
        "TIMER_DELIVER_MS": str(handle.due_ms),
        "TIMER_DEL_UNIQKEY": f"{handle.topic}+{handle.key}",
    }
    record = encode_record(
        topic=TIMER_TOPIC.encode(),
        body=_BODY,
        properties=encode_properties(properties),
        born_timestamp=int(time.time() * 1000),
        born_host=Host.unpack(config.born_host),
        store_host=Host.unpack(config.store_host),
        record_crc=config.append_crc,
    )
    where = Delayed(TIMER_TOPIC, handle.topic)
    return send_encoded(producer, where, 0, record, unique_key=handle.key, timeout=timeout)
