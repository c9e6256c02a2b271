from contextlib import AbstractContextManager

from ...shm._words import Word
from ..consuming.message_view import MessageView
from ._assigned_queue import AssignedQueue
from .listener import Listener
from .messages_ahead import MessagesAhead
from .subscription import Selection

class QuickTurns:
    words: list[Word]
    closed: bool
    def __init__(
        self,
        lock: AbstractContextManager[object],
        words: list[Word],
        queues: list[AssignedQueue],
        selections: list[Selection],
        wrote: Word,
    ) -> None: ...
    def take_counts(self) -> tuple[int, int, int]: ...
    def begin(self, notice: int, most_written: int, sleep_until_s: float) -> None: ...
    def poll(
        self, read: set[AssignedQueue], limit: int, max_bytes: int, deadline_s: float
    ) -> list[MessageView] | None: ...
    def read_ahead(self, ahead: MessagesAhead, read: set[AssignedQueue], limit: int) -> bool: ...
    def call_back(
        self, listener: Listener, limit: int, max_bytes: int
    ) -> tuple[AssignedQueue, list[MessageView]] | None: ...
