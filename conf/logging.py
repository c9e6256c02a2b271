"""Log lines of a store's processes, as JSON or as text for a terminal.

Each line has the store, the actor, the pid, and an ISO-8601 time in UTC. All processes of a store
write to the supervisor's stderr. Each line is one `write`, so lines of two processes do not mix.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Final

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


class _Lines:
    """Writes each line to stderr with one system call."""

    def msg(self, line: str) -> None:
        """Writes one line. Ignores errors: a store must not stop because its log is closed."""
        with contextlib.suppress(OSError):
            os.write(STDERR, f"{line}\n".encode("utf-8", "backslashreplace"))

    debug = info = warning = error = critical = exception = log = msg


def configure(store: str, actor: str, level: str = "info", fmt: str = "auto") -> None:
    """Sets up the log of this process. A forked process calls it again with its own `actor`.

    `level` is debug, info, warning or error; `fmt` is json, console, or auto (console on a
    terminal, json elsewhere).
    """
    console = fmt == "console" or (fmt == "auto" and os.isatty(STDERR))

    def bear(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event.update(store=store, actor=actor, pid=os.getpid())
        return event

    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        bear,
    ]
    if console:
        processors += [structlog.processors.format_exc_info, _printable, _console()]
    else:
        processors += [structlog.processors.format_exc_info, _json]
    structlog.configure(
        processors=processors,
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


def _printable(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escapes characters that could control a terminal: names may come from a hostile client."""
    for key, value in event.items():
        text = value if isinstance(value, str) else str(value)
        # A traceback has lines of its own.
        shown = printable(text, "\n" if key == "exception" else "")
        if shown != text:
            event[key] = shown
    return event
