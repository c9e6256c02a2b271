"""What the offline tools share: the store as an argument, the settings that say how large its files
are, and exit status 2 for what no tool can work on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..shared.common import config_option, set_option
from ..shared.outcome import Exit, Failure

if TYPE_CHECKING:
    from ...conf.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


def store_argument(command: F) -> F:
    """`STORE`, `--set` and `--config`."""
    for option in (
        config_option,
        set_option("A setting the store was made with: file sizes count here"),
        click.argument("store", type=click.Path(path_type=Path, readable=False), metavar="STORE"),
    ):
        command = option(command)
    return command


def settings_of(config_file: Path | None, overrides: tuple[str, ...]) -> Settings:
    """The settings of these options. A wrong one ends with status 3."""
    from ...conf.settings import SettingError
    from ...tools.raw.files import read_settings

    try:
        return read_settings(config_file, overrides)
    except SettingError as error:
        raise Failure(Exit.SETTING, str(error)) from error
    except OSError as error:
        why = f"cannot read the settings: {error.strerror} ({error.filename or config_file})"
        raise Failure(Exit.SETTING, why) from error


@contextlib.contextmanager
def bad_input_is_usage() -> Iterator[None]:
    """What a tool cannot work on ends with status 2, one sentence, and nothing changed."""
    from ...tools.raw.files import BadInput

    try:
        yield
    except BadInput as error:
        raise Failure(Exit.USAGE, str(error)) from error
