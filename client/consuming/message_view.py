"""A message as a consumer gets it; how it is taken apart is compiled (`_received.pyx`)."""

from __future__ import annotations

from ._message_view import MessageView

__all__ = ["MessageView"]
