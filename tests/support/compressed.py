"""Messages with compressed bodies in a running store, as RocketMQ's producers leave them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silomq.client.producing._sender import send_encoded, session_of
from silomq.store.record.format import encode_record
from silomq.store.record.properties import encode_properties

if TYPE_CHECKING:
    from silomq import Producer, SendResult


def send_stored(
    producer: Producer, topic: str, stored: bytes, sys_flag: int, **properties: str
) -> SendResult:
    """Sends a message whose body is `stored` and whose sysFlag says how it was compressed."""
    config = session_of(producer).config
    record = encode_record(
        topic.encode(),
        stored,
        encode_properties(properties),
        sys_flag=sys_flag,
        max_message_size=config.max_message_size,
    )
    return send_encoded(producer, topic, 0, record)
