"""commit: moves bytes from the transient pool's buffers into the commit log.

The only writer of `committed`. Without a pool (`transient_store_pool_enable`) what is written is
committed, as in RocketMQ, and the process only keeps the word in step with `wrote`, once a second.
"""

from __future__ import annotations

from .frame import TICK_S, Actor


class Commit(Actor):
    """Follows `wrote`."""

    name = "commit"

    def setup(self) -> None:
        self.wrote = self.control.word("wrote")
        self.committed = self.control.own("committed")
        self.never = self.control.word("state")

    def run(self) -> None:
        while not self.stopping:
            self.beat()
            self.committed.store(self.wrote.load())
            self.never.wait(self.never.load(), TICK_S)
        self.committed.store(self.wrote.load())
