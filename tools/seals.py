"""Seals: what was said about a commit-log file when it was full, held against what it is now.

This is where `silo verify` asks. Who writes seals gives the check of one; a store without a folder
of seals has nothing to hold against.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from .files import StoreFiles

#: Below the store's folder.
SEALS: Final = "silomq/seals"

#: Given a store and the name of a seal: (position in the seal, what is wrong), nothing if sound.
SealCheck: TypeAlias = "Callable[[StoreFiles, str], Iterable[tuple[int, str]]]"


def seal_names(files: StoreFiles) -> list[str]:
    """The seals that the store has, ascending."""
    try:
        return sorted(os.listdir(f"{files.path}/{SEALS}"))
    except FileNotFoundError:
        return []


def check_seals(files: StoreFiles, check: SealCheck) -> Iterable[tuple[str, int, str]]:
    """What is wrong with the store's seals and what they seal: (path, position, what)."""
    for name in seal_names(files):
        for position, what in check(files, name):
            yield f"{files.path}/{SEALS}/{name}", position, what
