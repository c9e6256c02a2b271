"""The handle by which a message that waits for its time can be cancelled.

It is RocketMQ's (`RecallMessageHandle.HandleV1`): "v1", topic, broker, time and UNIQ_KEY, with
spaces between them, in base64.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from ...store.errors import IllegalMessage, IllegalQuery
from ...store.names import validate_topic

_VERSION: Final = "v1"
_BROKER: Final = "silomq"


class Handle(NamedTuple):
    """What a cancel must know: the message's topic, when it is due (epoch ms), its UNIQ_KEY."""

    topic: str
    due_ms: int
    key: str

    def encoded(self, broker: str = _BROKER) -> str:
        """The handle as text, for another process or a later time. RocketMQ's clients recall the
        message at the broker of this name.
        """
        words = (_VERSION, self.topic, broker, str(self.due_ms), self.key)
        return base64.urlsafe_b64encode(" ".join(words).encode()).decode()

    @classmethod
    def decode(cls, text: str) -> Handle:
        """The handle in a text. Raises IllegalQuery if it is not one."""
        try:
            words = base64.b64decode(text.encode(), b"-_", validate=True).decode("ascii").split(" ")
            version, topic, _, due, key = words
            validate_topic(topic)
        except (binascii.Error, ValueError, IllegalMessage) as error:
            raise IllegalQuery(f"{text[:80]!a} is no recall handle of a SendResult") from error
        digits = due.isascii() and due.isdigit() and len(due) < 19
        if version != _VERSION or not digits or not key.isalnum():
            raise IllegalQuery(f"{text[:80]!a} is no recall handle of a SendResult")
        return cls(topic, int(due), key)
