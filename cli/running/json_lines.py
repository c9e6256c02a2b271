"""Messages as JSON, one a line: `silo send --json-lines` takes what `silo tail --json` prints."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final, NamedTuple

from ...client.producing.message_properties import RESERVED, TIMERS
from ...store.errors import IllegalMessage
from ...store.status import PutMessageStatus

#: What `silo tail --json` prints beside the message itself. It is ignored here.
_PLACE: Final = frozenset(
    ("topic", "queue_id", "queue_offset", "physical_offset", "message_id", "offset_message_id")
) | {"born_timestamp", "store_timestamp"}
#: Arguments of `Producer.send` that delay a message.
DELAYS: Final = ("delay_level", "delay_ms", "deliver_at")
_TAKEN: Final = frozenset(("body", "body_base64", "tags", "keys", "properties", *DELAYS))
# Properties of messages that the store has delivered late, or again.
_DELIVERED: Final = frozenset(("RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "TIMER_ENQUEUE_MS"))


class Line(NamedTuple):
    """One message to send: its body, and arguments of `Producer.send` by name."""

    body: bytes
    extras: dict[str, Any]

    @property
    def delayed(self) -> bool:
        """Whether it is to be delivered later. Such a message cannot be part of a batch."""
        return any(name in self.extras for name in DELAYS)


def parse_line(line: bytes, common: dict[str, Any]) -> Line:
    """The message of one line, with `common` arguments where the line gives none. Raises
    IllegalMessage, which says what is wrong.

    The object has `body` or `body_base64`, and may have `tags`, `keys` (one text or several),
    `properties`, and one of `delay_level`, `delay_ms` and `deliver_at` (epoch ms). Lines that
    `silo tail --json` printed can be sent again: the place of the message is ignored, and so are
    the properties that the store sets.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _illegal(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise _illegal("not a JSON object with a body")
    if "body_error" in fields:
        raise _illegal("its body could not be decompressed when it was printed (body_error)")
    unknown = sorted(set(fields) - _TAKEN - _PLACE)
    if unknown:
        allowed = ", ".join(sorted(_TAKEN))
        raise _illegal(f"unknown name {unknown[0][:60]!a}: {allowed} are known")
    extras = dict(common)
    for name in ("tags", *DELAYS):
        if fields.get(name) is not None:
            extras[name] = _typed(fields, name, str if name == "tags" else int)
    if fields.get("keys"):
        extras["keys"] = _keys(fields["keys"])
    if fields.get("properties"):
        own = _properties(fields["properties"])
        if "queue_offset" in fields:  # printed by tail
            set_by_store = RESERVED | TIMERS | _DELIVERED
            own = {name: value for name, value in own.items() if name not in set_by_store}
        extras["properties"] = {**(common.get("properties") or {}), **own} or None
    return Line(_body(fields), extras)


def _body(fields: dict[str, Any]) -> bytes:
    if ("body" in fields) == ("body_base64" in fields):
        raise _illegal("give either body or body_base64")
    if "body" in fields:
        try:
            return str(_typed(fields, "body", str)).encode()
        except UnicodeEncodeError:
            raise _illegal("body holds a lone surrogate, which is no text") from None
    try:
        return base64.b64decode(str(_typed(fields, "body_base64", str)), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _illegal(f"body_base64: {error}") from None


def _typed(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields[name]
    if type(value) is not kind:
        raise _illegal(f"{name} is a {type(value).__name__}, not a {kind.__name__}")
    return value


def _keys(value: Any) -> str | list[str]:
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(key, str) for key in texts):
        raise _illegal("keys are not a text, or several texts")
    return value  # type: ignore[no-any-return] # checked just above


def _properties(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _illegal("properties are not an object whose values are texts")
    return value


def _illegal(why: str) -> IllegalMessage:
    return IllegalMessage(PutMessageStatus.MESSAGE_ILLEGAL, why)
