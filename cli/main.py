"""The `silo` command: runs a subcommand. Every error becomes one sentence and an exit status.

What the commands need is imported within `main`, so that Ctrl-C is answered from the first moment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..conf.standard_streams import open_missing

#: `Exit.INTERRUPTED`, which may not be imported yet.
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with `arguments` (default: the process's own). Returns its exit status."""
    open_missing()
    try:
        if "_SILO_COMPLETE" in os.environ:
            return _complete(os.environ["_SILO_COMPLETE"])
        return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has ended, as `head` does: that is no error, and no message is
        # needed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    """Does the work of click's own `main`, which would handle broken pipes and Ctrl-C in another
    way.
    """
    import click

    from .commands import silo
    from .shared.outcome import Exit, tell

    assert _INTERRUPTED == Exit.INTERRUPTED
    try:
        with silo.make_context("silo", arguments) as context:
            status = silo.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except BrokenPipeError:
        raise
    except Exception as error:  # tracebacks are only for users who ask for them
        if os.environ.get("SILO_TRACEBACK"):
            raise
        return tell(error)
    return status if isinstance(status, int) else Exit.OK


def _complete(instruction: str) -> int:
    """Shell completion: eval "$(_SILO_COMPLETE=bash_source silo)"."""
    from click.shell_completion import shell_complete

    from .commands import silo

    return shell_complete(silo, {}, "silo", "_SILO_COMPLETE", instruction)


if __name__ == "__main__":
    sys.exit(main())
