"""The space of file systems."""

from __future__ import annotations

import os
from typing import NamedTuple

from .files import Folder


class Space(NamedTuple):
    """The space of a file system: all blocks, free blocks, free blocks that an ordinary user may
    take, and the bytes of one block.
    """

    blocks: int
    free: int
    available: int
    block_size: int


def space_of(folder: Folder) -> Space:
    """The space of the folder's file system."""
    found = os.fstatvfs(folder.fd)
    return Space(found.f_blocks, found.f_bfree, found.f_bavail, found.f_frsize)


def free_bytes(folder: Folder) -> int:
    """The bytes that an ordinary user may still take on the folder's file system."""
    found = space_of(folder)
    return found.available * found.block_size
