"""Small file systems, for tests that fill them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of `size` bytes on `folder`. Skips the test where mounting is not permitted; in
    CI it must be.
    """
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "silomq-test", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        why = done.stderr.strip() if done.returncode else ""
    except FileNotFoundError:
        why = "there is no mount command"
    if why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must be able to mount a tmpfs: {why}")
        pytest.skip(f"cannot mount a tmpfs: {why}")
    try:
        yield folder
    finally:
        # Lazily: what a test still holds open must not keep the mount.
        subprocess.run(["umount", "-l", folder], check=True)


def used_percent(folder: Path) -> float:
    """How full the folder's file system is."""
    found = os.statvfs(folder)
    return 100 * (1 - found.f_bfree / found.f_blocks)


def fill_to(folder: Path, percent: float) -> Path:
    """Makes a file that takes the disk to `percent`; with 100 not a byte is left. A store may take
    space at the same time.
    """
    ballast = folder / "ballast"
    with ballast.open("ab") as file:
        while True:
            found = os.statvfs(folder)
            wanted = int(found.f_blocks * percent / 100) - (found.f_blocks - found.f_bfree)
            if wanted <= 0:
                return ballast
            size = os.fstat(file.fileno()).st_size
            with contextlib.suppress(OSError):  # somebody else took some of it first
                os.posix_fallocate(file.fileno(), size, wanted * found.f_frsize)
                return ballast
