"""Decides how far ahead of append log files are made, and how far their pages are warmed.

Pure: allocate tells it where append was at which time and how long files took to make, and does
what it says. A store that is new, idle or slow keeps little memory and disk. A fast one gets the
memory that append would use up in eight seconds, and files for as long as it takes to make more.
Warming is spread over time: a run of steps would keep a core from processes that move messages.
The demand follows the greatest rate of the last minutes: the next burst finds what the last one
needed.
"""

from __future__ import annotations

#: The bytes ahead of append that are warmed at least, by a store that has never been fast.
LEAST_WINDOW = 128 << 20
_WINDOW_S = 8.0
_FILES_S = 2.0
# A file is begun this many times earlier than the slowest of the last ones would need: the disk may
# be busier the next time.
_MAKING_MARGIN = 4
_HALF_LIFE_S = 60.0
# A rate is one of at least so long a time: a short burst of a slow store needs no memory.
_SAMPLE_S = 1.0


# With so small a part of the window ahead of append, warming does not rest.
_HURRY = 4
# Otherwise it is at most so many times as fast as append, or as a slow append of this rate.
_LEAD = 2
_LEAST_RATE = 16 << 20
_LONGEST_REST_S = 0.1
# From this rate on, bytes a second, the time that warming takes for each byte counts more than how
# long the kernel keeps a core: 0.5 ms for 2 MiB, and 5 ms where a host gives the memory.
_FAST = 256 << 20


class Ahead:
    """The demand of one log with files of `file_size` bytes, of which up to `most_files` may follow
    the one that append writes to. The window has `most_window` bytes at most. Times are monotonic
    seconds, positions log offsets.
    """

    def __init__(
        self, file_size: int, most_files: int, most_window: int, wrote: int, now: float
    ) -> None:
        self.file_size = file_size
        self.most_files = most_files
        self.most_window = max(most_window, LEAST_WINDOW)
        self._sample = wrote, now  # where and when the present sample began
        self._seen = now
        self._peak = 0.0  # bytes a second; halves in _HALF_LIFE_S
        self._making = 0.0  # seconds that the slowest file took; halves with each file

    def saw(self, wrote: int, now: float) -> None:
        """Notes that append was at `wrote`."""
        before, then = self._sample
        faded: float = self._peak * 0.5 ** ((now - self._seen) / _HALF_LIFE_S)
        self._peak = max(faded, (wrote - before) / max(now - then, _SAMPLE_S))
        self._seen = now
        if now - then >= _SAMPLE_S:
            self._sample = wrote, now

    def made(self, seconds: float) -> None:
        """Notes how long it took to make a file."""
        self._making = max(seconds, self._making / 2)

    @property
    def window(self) -> int:
        """How many bytes ahead of append are to be warm."""
        return min(max(int(self._peak * _WINDOW_S), LEAST_WINDOW), self.most_window)

    @property
    def is_fast(self) -> bool:
        """Whether append is so fast that memory is best taken in large parts."""
        return self._peak >= _FAST

    def wants_file(self, wrote: int, ready: int) -> bool:
        """Whether a file is to be made, if append is at `wrote` and files exist up to `ready`."""
        active = wrote - wrote % self.file_size
        if ready <= active:
            return True
        if (ready - active) // self.file_size > self.most_files:
            return False
        lead_s = max(_FILES_S, _MAKING_MARGIN * self._making)
        return ready - wrote < max(self.window, int(self._peak * lead_s))

    def rest(self, lead: int, step: int) -> float:
        """For how many seconds to rest after a step that has warmed `step` bytes, if `lead` bytes
        ahead of append are warm.
        """
        if lead < self.window // _HURRY:
            return 0.0
        return min(step / (_LEAD * max(self._peak, _LEAST_RATE)), _LONGEST_REST_S)
