"""`MessageView`, a message as a consumer gets it. `_message_view.pyx` parses the record."""

from __future__ import annotations

from ._message_view import MessageView

__all__ = ["MessageView"]
