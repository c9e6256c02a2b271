"""Turns the fields of a request into a typed struct, and the fields of an answer into text."""

from __future__ import annotations

from typing import TypeVar

import msgspec

Header = TypeVar("Header", bound=msgspec.Struct)


class BadHeader(ValueError):
    """Fields that do not fit the request: the text names the field."""


def parse(kind: type[Header], fields: dict[str, str]) -> Header:
    """The struct of a request's fields. Unknown fields are ignored. Raises BadHeader for one that
    is missing or has a wrong value.
    """
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadHeader(f"the request's fields: {error}") from error


def texts(header: msgspec.Struct) -> dict[str, str]:
    """The fields of a struct as text, as Java writes them. None is left out."""
    values = msgspec.to_builtins(header)
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def offset_in_id(message_id: str) -> int:
    """The log offset in an offset message id (RocketMQ: MessageDecoder.decodeMessageId). Raises
    BadHeader.
    """
    try:
        return int(message_id[-16:], 16)
    except ValueError as error:
        raise BadHeader(f"the request's fields: msgId {message_id[:60]!a} is no id") from error
