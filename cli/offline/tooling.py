"""What the offline tools share: the argument STORE, the settings with the sizes of its files, and
exit status 2 for input that a tool cannot work on.
"""

from __future__ import annotations

import contextlib
import os
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
    """The argument `STORE` and the options `--set` and `--config`."""
    for option in (
        config_option,
        set_option("A setting of the store; only file sizes matter here"),
        click.argument("store", type=click.Path(path_type=Path, readable=False), metavar="STORE"),
    ):
        command = option(command)
    return command


def settings_of(
    config_file: Path | None,
    overrides: tuple[str, ...],
    store: str | os.PathLike[str] | None = None,
) -> Settings:
    """The settings of these options, with the sizes that the files in the folder `store` have.
    Raises Failure with status 3 for an illegal setting, or one that contradicts the store.
    """
    from ...conf.settings import SettingError
    from ...tools.raw.files import read_settings

    try:
        return read_settings(config_file, overrides, store)
    except SettingError as error:
        raise Failure(Exit.SETTING, str(error)) from error
    except OSError as error:
        why = f"cannot read the settings: {error.strerror} ({error.filename or config_file})"
        raise Failure(Exit.SETTING, why) from error


@contextlib.contextmanager
def bad_input_is_usage() -> Iterator[None]:
    """Turns BadInput into a Failure with status 2."""
    from ...tools.raw.files import BadInput

    try:
        yield
    except BadInput as error:
        raise Failure(Exit.USAGE, str(error)) from error
