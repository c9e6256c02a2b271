"""`silo doctor`: looks at the machine and at a store's place on it. Changes nothing."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from ...conf.printable import printable
from ..shared.common import (
    config_option,
    json_option,
    put_json,
    put_text,
    say,
    set_option,
    store_option,
)
from ..shared.outcome import Exit, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...conf.settings import Settings
    from ...tools.doctor.findings import Finding

_EPILOG = """\b
Examples:
  silo doctor
  silo doctor --config /etc/silomq/silomq.toml
  silo doctor --json | jq '.findings[] | select(.level != "ok")'
\b
Exit status:
  0    no problem; there may be warnings
  1    a problem: the store does not start, loses messages, or takes none
"""
_WIDTH: Final = 18


@click.command(epilog=_EPILOG, short_help="Check the machine and a store's place on it.")
@store_option
@config_option
@set_option("A setting of the store")
@click.option(
    "--broker-port",
    type=click.IntRange(1, 65535),
    help="Where its broker listens.  [default: store_port]",
)
@json_option
def doctor(
    store: Path,
    config_file: Path | None,
    overrides: tuple[str, ...],
    broker_port: int | None,
    *,
    as_json: bool,
) -> int:
    """Check limits, kernel, shared memory, disk, rights and clock for the store in DIR.

    The store may run, be stopped, or not exist yet. Each line is one check: ok, warning or problem,
    what is so, and what to do. Nothing is changed. Run it as the user who runs the store.
    """
    from ...tools.doctor.doctor import examine
    from ...tools.doctor.findings import Level

    settings, findings = _settings(store, config_file, overrides)
    for found in examine(settings, broker_port or settings.store_port):
        findings.append(found)
        if not as_json:
            put_text(_lines(found))
    counts = {level: sum(one.level is level for one in findings) for level in Level}
    if as_json:
        put_json(
            {
                "store": str(settings.store_path),
                "problems": counts[Level.PROBLEM],
                "warnings": counts[Level.WARNING],
                "findings": [found.as_dict() for found in findings],
            },
            indent=2,
        )
    problems, warnings = counts[Level.PROBLEM], counts[Level.WARNING]
    say(f"silo: {len(findings)} checks, problems: {problems}, warnings: {warnings}")
    return Exit.FAILED if problems else Exit.OK


def _lines(found: Finding) -> str:
    """A finding as one line, folded for a terminal."""
    head = f"{found.level:<8} {found.check:<{_WIDTH}} "
    what = printable(found.what)
    text = f"{what}. To do: {printable(found.advice)}" if found.advice else what
    from rich.console import Console

    if not sys.stdout.isatty():
        return head + text
    width = Console().width
    return textwrap.fill(
        text,
        max(width, 2 * len(head)),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )


def _settings(
    store: Path, config_file: Path | None, overrides: Sequence[str]
) -> tuple[Settings, list[Finding]]:
    """The settings, and what is wrong with the sizes that the store remembers: then they are those
    of the other sources. Raises Failure with status 3 for an illegal setting.
    """
    from ...conf.settings import SettingError, load
    from ...store.errors import StoreError
    from ...store.recovery.layout import known_sizes
    from ...tools.doctor.findings import problem

    source = click.get_current_context().get_parameter_source("store")
    given = [f"store_path={store}"] if source is ParameterSource.COMMANDLINE else []
    texts = [*given, *overrides]
    try:
        try:
            return load(config_file, overrides=texts, remembered=known_sizes), []
        except StoreError as error:
            found = problem("layout", str(error), "see silo verify")
            return load(config_file, overrides=texts), [found]
    except SettingError as error:
        raise Failure(Exit.SETTING, str(error)) from error
    except OSError as error:
        why = f"cannot read the settings: {error.strerror} ({error.filename or config_file})"
        raise Failure(Exit.SETTING, why) from error
