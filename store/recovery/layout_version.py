"""The version of the layout of a store's own files, in `silomq/layout`."""

from __future__ import annotations

from ..disk import files as disk
from ..disk.paths import LAYOUT_FILE, LAYOUT_VERSION, StoreFolders
from ..disk.replacing import replace_file
from ..errors import StoreError


def check_layout(folders: StoreFolders) -> bool:
    """Whether the store says its layout version; a new one does not yet. Raises StoreError for a
    store that a newer SiloMQ made.
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
    """Says durably that the store has the layout of this SiloMQ."""
    replace_file(folders.ours, LAYOUT_FILE, f"{LAYOUT_VERSION}\n".encode())
