"""The version of the layout of the files below `silomq/`: the number in `silomq/layout`."""

from __future__ import annotations

from ..disk import files as disk
from ..disk.paths import LAYOUT_FILE, LAYOUT_VERSION, StoreFolders
from ..disk.replacing import replace_file
from ..errors import StoreError


def check_layout(folders: StoreFolders) -> bool:
    """Whether the store has a layout version; a new store has none yet. Raises StoreError if a
    newer SiloMQ made the store.
    """
    try:
        with folders.ours.file(LAYOUT_FILE) as fd:
            text = disk.read_at(fd, 32, 0).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return False
    if not text.isdigit() or int(text) > LAYOUT_VERSION:
        raise StoreError(
            f"{folders.ours.path}/{LAYOUT_FILE} says {text!r}: the store was made by a newer "
            f"SiloMQ (this one knows layouts up to {LAYOUT_VERSION}); start it with that version"
        )
    return True


def note_layout(folders: StoreFolders) -> None:
    """Writes this SiloMQ's layout version, durably. Raises OSError."""
    replace_file(folders.ours, LAYOUT_FILE, f"{LAYOUT_VERSION}\n".encode())
