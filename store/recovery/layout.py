"""The file `silomq/layout`: the version of the layout below `silomq/`, and the sizes of the store's
files. RocketMQ ignores it.

It is TOML: `version`, the settings in `SIZES` with which the store was made, and `crc`, the CRC-32C
of the lines before it in hex digits. The mapped files themselves do not say their sizes. With this
file no command needs `--set` for them, and a start refuses other sizes. A size counts as long as
the store has files of its kind: without index files, for instance, the next start may choose
another size of the index. Version 1 was the bare number. A layout without `crc` is believed.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import tomllib
from typing import TYPE_CHECKING, Final

import msgspec

from ...conf.settings import Remembered
from ...shm._checksum import crc32c
from ..consumequeue.queue import ENTRY_SIZE, QueueFiles
from ..disk import files as disk
from ..disk.files import Folder
from ..disk.paths import (
    COMMIT_LOG,
    CONSUME_QUEUE,
    INDEX,
    LAYOUT_FILE,
    LAYOUT_VERSION,
    OURS,
    StoreFolders,
    file_bases,
    file_name,
)
from ..disk.replacing import replace_file
from ..errors import Corrupt, StoreError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from ...conf.settings import Settings

#: The settings that give files their sizes, with the folder of these files.
SIZES: Final = {
    "mapped_file_size_commit_log": COMMIT_LOG,
    "mapped_file_size_consume_queue": CONSUME_QUEUE,
    "max_hash_slot_num": INDEX,
    "max_index_num": INDEX,
}
_INDEX_NAME_DIGITS: Final = 17
_MOST: Final = 4096  # bytes read of the file
_LOOKED_AT: Final = 1000  # queues of a store without a layout


class Layout(msgspec.Struct, frozen=True):
    """What the file says: its version, and the sizes by setting (none in version 1)."""

    version: int
    sizes: Mapping[str, int]


def read_layout(ours: Folder) -> Layout | None:
    """The store's layout; None for a store that has none, a new one or RocketMQ's. Raises
    StoreError if a newer SiloMQ made the store, Corrupt if the file is damaged.
    """
    path = f"{ours.path}/{LAYOUT_FILE}"
    try:
        with ours.file(LAYOUT_FILE) as fd:
            data = disk.read_at(fd, min(_MOST, disk.size_of(fd)), 0)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR):
            raise
        raise _damaged(path, str(error.strerror)) from error
    layout = _parse(data, path)
    if layout.version > LAYOUT_VERSION:
        raise StoreError(
            f"{path} has version {layout.version}: a newer SiloMQ made the store (this one knows "
            f"layouts up to {LAYOUT_VERSION}); start it with that version"
        )
    return layout


def _parse(data: bytes, path: str) -> Layout:
    text = data.decode("utf-8", "replace").strip()
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return Layout(int(text), {})
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _damaged(path, str(error)) from error
    lines, _, _ = text.partition('crc = "')
    crc, version = table.pop("crc", None), table.pop("version", None)
    if crc not in (None, _crc(lines)):
        raise _damaged(path, f"its crc is {crc!a}")
    if type(version) is not int or version < 1:
        raise _damaged(path, f"its version is {version!a}")
    if version > LAYOUT_VERSION:
        return Layout(version, {})
    for name, size in table.items():
        if name not in SIZES or type(size) is not int or size < 1:
            raise _damaged(path, f"{name!a} = {size!a} is none of its sizes")
    return Layout(version, table)


def _crc(lines: str) -> str:
    return f"{crc32c(lines.encode()):08x}"


def _damaged(path: str, why: str) -> Corrupt:
    return Corrupt(
        path,
        0,
        f"not a layout ({why}): restore it from a copy; or remove it, and give the sizes that "
        "the store was made with once",
    )


def check_layout(folders: StoreFolders, settings: Settings) -> Layout | None:
    """The store's layout, None if it has none yet. Raises StoreError if a newer SiloMQ made the
    store, or its files have other sizes than the settings say; Corrupt.
    """
    layout = read_layout(folders.ours)
    if layout is None:
        return None
    for name, size in _of_existing(folders.root, layout.sizes).items():
        wanted = getattr(settings, name)
        if wanted != size:
            raise StoreError(
                f"{folders.root.path} was made with {name} = {size}, and the settings say "
                f"{wanted}: leave {name} out, because the store knows the sizes of its files"
            )
    return layout


def layout_of(settings: Settings, before: Layout | None) -> Layout:
    """The layout of a store that runs with `settings`, and had the layout `before`. A store that
    keeps no index writes no index files, so their sizes stay as they were.
    """
    noted = before.sizes if before else {}
    sizes = {}
    for name, kind in SIZES.items():
        if kind != INDEX or settings.message_index_enable:
            sizes[name] = getattr(settings, name)
        elif name in noted:
            sizes[name] = noted[name]
    return Layout(LAYOUT_VERSION, sizes)


def note_layout(folders: StoreFolders, layout: Layout) -> None:
    """Writes the layout, durably. Raises OSError."""
    sizes = "".join(f"{name} = {size}\n" for name, size in layout.sizes.items())
    lines = f"version = {layout.version}\n{sizes}"
    text = f'{lines}crc = "{_crc(lines)}"\n'
    replace_file(folders.ours, LAYOUT_FILE, text.encode())


def known_sizes(path: str | os.PathLike[str], *, of_lost: bool = False) -> Remembered:
    """The sizes of the files in the store at `path`, by setting, for a command that opens it next.
    They are certain if its layout file says them, and not if they were read off the files. A folder
    that is no store, or cannot be read, has none: the command itself says so. Raises as
    `read_layout`.

    A kind of which there is no file may get another size. With `of_lost` it keeps the one that it
    had: a repair makes the lost files anew.
    """
    missing = (FileNotFoundError, NotADirectoryError, PermissionError)
    with contextlib.suppress(*missing), Folder.open(path) as root:
        layout = None
        with contextlib.suppress(FileNotFoundError), root.folder(OURS) as ours:
            layout = read_layout(ours)
        if layout is not None and layout.sizes:
            sizes = layout.sizes if of_lost else _of_existing(root, layout.sizes)
            return Remembered(dict(sizes), certain=True)
        return Remembered(dict(_read_off(root)), certain=False)
    return Remembered({}, certain=False)


def _of_existing(root: Folder, sizes: Mapping[str, int]) -> dict[str, int]:
    """Those sizes that belong to files the store has."""
    has = {kind: _has_files(root, kind) for kind in {SIZES[name] for name in sizes}}
    return {name: size for name, size in sizes.items() if has[SIZES[name]]}


def _has_files(root: Folder, kind: str) -> bool:
    with contextlib.suppress(FileNotFoundError), root.folder(kind) as folder:
        if kind == COMMIT_LOG:
            return bool(file_bases(folder))
        if kind == INDEX:
            return any(len(n) == _INDEX_NAME_DIGITS and n.isdigit() for n in folder.names())
        return any(file_bases(queue) for _, _, queue in QueueFiles(folder, ENTRY_SIZE).queues())
    return False


def _read_off(root: Folder) -> Iterator[tuple[str, int]]:
    """The sizes that the files of a store without a layout show. The names of two neighbours say
    the size even if one of them was cut short; a single file is believed only if its queue is.
    """
    with contextlib.suppress(FileNotFoundError), root.folder(COMMIT_LOG) as log:
        step = _least_step(file_bases(log))
        if step:
            yield "mapped_file_size_commit_log", step
    with contextlib.suppress(FileNotFoundError), root.folder(CONSUME_QUEUE) as queues:
        size = _queue_size(queues)
        if size:
            yield "mapped_file_size_consume_queue", size


def _queue_size(root: Folder) -> int:
    """The size of the queues' files, bytes; 0 without any file."""
    size = 0
    for _, _, queue in itertools.islice(QueueFiles(root, ENTRY_SIZE).queues(), _LOOKED_AT):
        bases = file_bases(queue)
        step = _least_step(bases)
        if step:
            return step
        if bases and not size:
            size = queue.size(file_name(bases[0]))
    return size if size % ENTRY_SIZE == 0 else 0


def _least_step(bases: list[int]) -> int:
    """The least distance between two neighbours, 0 without any."""
    return min((b - a for a, b in itertools.pairwise(bases)), default=0)
