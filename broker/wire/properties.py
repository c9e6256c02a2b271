"""Settings in the body of a request or an answer: lines NAME=VALUE, as Java's Properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .headers import BadHeader

#: A body of settings has so many bytes at most.
_MOST_BODY: Final = 64 << 10


def parse_properties(body: bytes) -> dict[str, str]:
    """The settings in a body. Raises BadHeader."""
    if len(body) > _MOST_BODY:
        raise BadHeader(f"the settings have {len(body)} bytes; at most {_MOST_BODY} are taken")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise BadHeader(f"string2Properties error: {error}") from error
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if name and not name.startswith(("#", "!")):
            if not equals:
                raise BadHeader(f"string2Properties error: {name[:100]!a} has no value")
            found[name.strip()] = value.strip()
    return found


def encode_properties(settings: Mapping[str, str]) -> bytes:
    """The body of these settings, sorted by name."""
    return "".join(f"{name}={settings[name]}\n" for name in sorted(settings)).encode()
