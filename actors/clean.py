"""clean: removes what has expired and watches the disk.

The only writer of `min_offset` and `disk_flags`, the only process that unlinks commit-log files.
"""

from __future__ import annotations

from .frame import TICK_S, Actor


class Clean(Actor):
    """Keeps `min_offset` at the first commit-log file."""

    name = "clean"

    def setup(self) -> None:
        self.min_offset = self.control.own("min_offset")
        self.state = self.control.word("state")

    def run(self) -> None:
        every = self.settings.clean_resource_interval_ms / 1000
        waited = every
        while not self.stopping:
            self.beat()
            if waited >= every:
                waited = 0.0
                bases = self.world.log.bases()
                if bases:
                    self.min_offset.store(bases[0])
            self.state.wait(self.state.load(), TICK_S)
            waited += TICK_S
