"""A message as a consumer gets it; how it is taken apart is compiled (`_message_view.pyx`)."""

from __future__ import annotations

from ._message_view import MessageView

__all__ = ["MessageView"]
