"""How a command ends: exit statuses, and one sentence for each error."""

from __future__ import annotations

import enum
import errno

import click

from ...store.errors import (
    Corrupt,
    CorruptRange,
    IllegalArgument,
    IllegalMessage,
    IllegalType,
    StoreError,
    UnsupportedFeature,
)
from ...store.status import PutMessageStatus
from .common import say


class Exit(enum.IntEnum):
    """Exit statuses of `silo`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    SETTING = 3
    LOCKED = 4
    CORRUPT = 5
    DISK_FULL = 6
    INTERRUPTED = 130


class Failure(Exception):
    """Ends the command with a status and a sentence."""

    def __init__(self, status: Exit, why: str) -> None:
        super().__init__(why)
        self.status = status


# Refusals that the caller can avoid by sending another message.
_CALLERS_FAULT = frozenset(
    (
        PutMessageStatus.MESSAGE_ILLEGAL,
        PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
        PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL,
    )
)
_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))


def explain(error: Exception) -> tuple[Exit, str]:
    """The exit status for an error, and the sentence that describes it."""
    match error:
        case Failure():
            return error.status, str(error)
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "silo"
            return Exit.USAGE, f"{error.format_message()} (see: {command} --help)"
        case click.ClickException():
            return Exit.USAGE, error.format_message()
        case IllegalMessage():
            return Exit.USAGE if error.status in _CALLERS_FAULT else Exit.FAILED, str(error)
        case IllegalArgument() | IllegalType():
            return Exit.USAGE, str(error)
        case Corrupt() | CorruptRange() | UnsupportedFeature():
            return Exit.CORRUPT, str(error)
        case OSError(errno=errno.EISDIR | errno.ENOTDIR | errno.ELOOP):
            why = f"{error.strerror} ({error.filename}): move it away, then start again"
            return Exit.CORRUPT, why
        case StoreError():
            return Exit.FAILED, str(error)
        case UnicodeEncodeError():
            return Exit.USAGE, f"{error.object!a} is not UTF-8"
        case OSError():
            where = f" ({error.filename})" if error.filename else ""
            status = Exit.DISK_FULL if error.errno in _FULL else Exit.FAILED
            return status, f"{error.strerror or error}{where}"
    return Exit.FAILED, f"internal error: {type(error).__name__}: {error}"


def tell(error: Exception) -> Exit:
    """Says on stderr what went wrong. Returns the exit status."""
    status, why = explain(error)
    say("silo: " + " ".join(why.split()))
    return status
