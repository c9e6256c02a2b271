"""What is shown while a run goes on: a table on a terminal, otherwise a line now and then."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from rich.table import Table

    from .sampler import Samples
    from .tally import Tally

_LINE_EVERY_S = 10
_END = (signal.SIGINT, signal.SIGTERM)


def _place(number: int, warm_up: int, duration: int) -> str:
    """Where second `number` since the start lies. Behind the end comes what is overdue."""
    if number < warm_up:
        return f"{number + 1} of {warm_up} (warm-up)"
    measured = number + 1 - warm_up
    if measured <= duration:
        return f"{measured} of {duration}"
    return f"{measured - duration} behind the end"


class Interrupted(Exception):
    """The user wants the end."""


class Live:
    """Shows on standard error. In its `with` block Ctrl-C and SIGTERM are remembered: the run that
    goes on ends in order. A second one ends at once.
    """

    def __init__(self) -> None:
        self._title, self._shown = "", -1
        self._signals = 0
        self._before: dict[signal.Signals, Any] = {}
        self._table: Any = None

    def is_interrupted(self) -> bool:
        """Whether the user wants the end."""
        return self._signals > 0

    def check(self) -> None:
        """Raises Interrupted if the user wants the end."""
        if self.is_interrupted():
            raise Interrupted

    def begin(self, title: str) -> None:
        """Names the run that begins."""
        self._title, self._shown = title, -1
        if self._table is None:
            self._say(title)

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def show(
        self, tally: Tally, samples: Samples, groups: int, *, warm_up: int, duration: int
    ) -> None:
        """Shows the last second of which all is known."""
        if len(tally.seconds) < 2:
            return
        number = len(tally.seconds) - 2
        if number == self._shown:
            return
        self._shown = number
        if self._table is None and number % _LINE_EVERY_S != _LINE_EVERY_S - 1:
            return
        second = tally.seconds[number]
        row: dict[str, str] = {
            "second": _place(number, warm_up, duration),
            "sent/s": f"{second.sent:,}",
        }
        if groups:
            row["read/s"] = f"{second.consumed:,}"
            row["backlog"] = f"{max(0, tally.all_sent * groups - tally.all_consumed):,}"
        if second.errors:
            row["errors"] = f"{second.errors:,}"
        for kind in ("publish", "end_to_end"):
            if kind in second.encoded:
                found = second.latencies(kind).percentiles((50, 99, 99.9))
                row[f"{kind} p50/p99/p99.9 us"] = "/".join(f"{one:,}" for one in found)
        used = samples.rows[-1] if samples.rows else {}
        cpu = {
            name.removeprefix("cpu."): value
            for name, value in used.items()
            if name.startswith("cpu.") and value is not None and value >= 0.005
        }
        row["CPU"] = " ".join(f"{name} {value:.0%}" for name, value in cpu.items())
        if self._table is not None:
            self._table.update(self._as_table(row), refresh=True)
        else:
            self._say("  " + "  ".join(f"{name} {value}" for name, value in row.items()))

    def _as_table(self, row: dict[str, str]) -> Table:
        from rich.table import Table

        shown = Table(title=self._title, title_justify="left", show_header=False)
        for name, value in row.items():
            shown.add_row(name, value)
        return shown

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for one in _END:
            self._before[one] = signal.signal(one, self._note)
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live as Shown

            self._table = Shown(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._table.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._table is not None:
            self._table.__exit__(None, None, None)
        for one, handler in self._before.items():
            signal.signal(one, handler)
