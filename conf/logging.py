"""Log lines of a store's processes, as JSON or as text for a terminal.

Each line has the store, the actor, the pid, and an ISO-8601 time in UTC. All processes of a store
write to the supervisor's stderr. Each line is one `write`, so lines of two processes do not mix.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from .printable import printable, printable_json

# structlog imports rich if it is installed, only to format tracebacks. That costs each start of a
# store 4 MiB and 0.1 s. While its entry is None, the import fails, and structlog works without it.
_WITHOUT_RICH: Final = "rich" not in sys.modules
if _WITHOUT_RICH:
    sys.modules["rich"] = None  # type: ignore[assignment]  # what `import` documents for this
try:
    import structlog
finally:
    if _WITHOUT_RICH:
        del sys.modules["rich"]

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

STDERR: Final = 2
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_FORMATS: Final = ("auto", "json", "console")
_FIRST: Final = ("timestamp", "level", "store", "actor", "pid", "event")
#: So many lines of one event are written within so many seconds. Further ones are counted, and one
#: line tells how many there were.
BURST: Final = 10
WINDOW_S: Final = 10.0
#: A value that is not written: events that have different ones are counted each by itself. There
#: must be few of them.
KIND: Final = "_kind"
#: Longer values are cut, in characters. A traceback may be longer.
_MOST: Final = 2000
_MOST_TRACEBACK: Final = 20_000


class _Lines:
    """Writes each line to stderr with one system call."""

    def msg(self, line: str) -> None:
        """Writes one line. Ignores errors: a store must not stop because its log is closed."""
        with contextlib.suppress(OSError):
            os.write(STDERR, f"{line}\n".encode("utf-8", "backslashreplace"))

    debug = info = warning = error = critical = exception = log = msg


class _Kind:
    """The lines of one event: how many were written in the present window, how many were not, and
    the last of these.
    """

    __slots__ = ("began", "held", "last", "written")

    def __init__(self, now: float) -> None:
        self.began = now
        self.written = self.held = 0
        self.last: EventDict = {}


class _Repeats:
    """Bounds how often one event is written: whoever can provoke a line, a client for instance,
    must not fill the disk with it. `rest` are the processors behind this one.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], _Kind] = {}
        self._waiting = 0
        self._pid = os.getpid()
        self.rest: tuple[Processor, ...] = ()

    def begin(self, *rest: Processor) -> None:
        """Tells what was held back, and begins anew, with other processors behind this one."""
        self.tell(float("inf"))
        self._kinds.clear()
        self._waiting = 0
        self._pid = os.getpid()
        self.rest = rest

    def __call__(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Passes an event on, or counts it. Raises structlog.DropEvent."""
        now = time.monotonic()
        self.tell(now)
        key = str(event["event"]), method, str(event.pop(KIND, ""))
        kind = self._kinds.get(key)
        if kind is None or now - kind.began >= WINDOW_S:
            kind = self._kinds[key] = _Kind(now)
        if kind.written < BURST:
            kind.written += 1
            return event
        self._waiting += kind.held == 0
        kind.held += 1
        kind.last = event
        raise structlog.DropEvent

    def tell(self, now: float) -> None:
        """Writes a line for each event that was held back in a window which ended by `now`."""
        if not self._waiting or self._pid != os.getpid():  # a fork has its parent's counts
            return
        for key, kind in list(self._kinds.items()):
            if kind.held and now - kind.began >= WINDOW_S:
                del self._kinds[key]
                self._waiting -= 1
                line: Any = {**kind.last, "repeated": kind.held}
                for step in self.rest:
                    line = step(None, key[1], line)
                _Lines().msg(line)


_repeats = _Repeats()


def tell_repeats(*, everything: bool = False) -> None:
    """Writes how often events were repeated, once their window is over, or now for all. A process
    that logs calls it about once a second, and for all at its end.
    """
    _repeats.tell(float("inf") if everything else time.monotonic())


def configure(store: str, actor: str, level: str = "info", fmt: str = "auto") -> None:
    """Sets up the log of this process. A forked process calls it again with its own `actor`.

    `level` is debug, info, warning or error; `fmt` is json, console, or auto (console on a
    terminal, json elsewhere).
    """
    console = fmt == "console" or (fmt == "auto" and os.isatty(STDERR))

    def bear(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event.update(store=store, actor=actor, pid=os.getpid())
        return event

    _repeats.begin(
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        bear,
        structlog.processors.format_exc_info,
        _bounded,
        *((_printable, _console()) if console else (_json,)),
    )
    structlog.configure(
        processors=[structlog.processors.add_log_level, _repeats, *_repeats.rest],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda *_args: _Lines(),
        # A cached logger that was made before the fork would still write the supervisor's name.
        cache_logger_on_first_use=False,
    )


def to_word(level: str, fmt: str) -> int:
    """A level and a format as a number above 0, for a word of shared memory."""
    return _LEVELS[level] << 8 | _FORMATS.index(fmt)


def from_word(word: int) -> tuple[str, str]:
    """The level and the format that `to_word` made a number of."""
    names = {number: name for name, number in _LEVELS.items()}
    return names[word >> 8], _FORMATS[word & 0xFF]


def get_logger() -> FilteringBoundLogger:
    """A logger for events with named values: `get_logger().info("store recovered", files=3)`."""
    logger: FilteringBoundLogger = structlog.get_logger()
    return logger


def _console() -> Processor:
    return structlog.dev.ConsoleRenderer(
        colors=os.isatty(STDERR) and not os.environ.get("NO_COLOR"),
        exception_formatter=structlog.dev.plain_traceback,
        pad_event_to=0,
    )


def _json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    ordered = {key: event[key] for key in _FIRST if key in event}
    # A lone surrogate (from a file name that is not UTF-8) becomes \udcff, which is valid JSON.
    return printable_json({**ordered, **event}, default=repr, skipkeys=True)


def _bounded(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Cuts long texts: an error may quote what a client has sent."""
    for key, value in event.items():
        most = _MOST_TRACEBACK if key == "exception" else _MOST
        if isinstance(value, str) and len(value) > most:
            event[key] = f"{value[:most]}... ({len(value):,} characters)"
    return event


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escapes characters that could control a terminal: names may come from a hostile client."""
    found: EventDict = {}
    for key, value in event.items():
        text = value if isinstance(value, str) else str(value)
        # A traceback has lines of its own.
        shown = printable(text, "\n" if key == "exception" else "")
        found[printable(key)] = value if shown == text else shown
    return found
