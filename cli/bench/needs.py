"""What the commands of `silo bench` have in common: where servers lie, and the libraries."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

import click

from ..shared.outcome import Exit, Failure

#: A module and the package that has it.
_NEEDED: Final = {"hdrh": "hdrhistogram", "numpy": "numpy"}

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False, writable=True),
    default=Path(),
    metavar="DIR",
    help="Where servers keep their files while they are measured.  [default: the current folder]",
)


def check_libraries() -> None:
    """Raises Failure without what only `silo bench` needs."""
    missing = [name for one, name in _NEEDED.items() if importlib.util.find_spec(one) is None]
    if missing:
        raise Failure(
            Exit.FAILED,
            f"silo bench needs {' and '.join(missing)}: install it by pip install 'silomq[bench]'",
        )
