"""`Answer`: what all answers of the registry share."""

from __future__ import annotations

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True, tag_field="kind"):
    """A message from the registry to a client. `id` is that of the request, or 0 if the message
    answers no certain request.
    """

    id: int = 0
