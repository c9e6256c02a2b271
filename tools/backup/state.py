"""Copies a store's small files: configuration, topics, and the progress of its processes.

The order matters, because they change meanwhile. Each file is copied as it is at one moment, or was
before. A file that refers to others is copied before these, or after, as the comments say.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ...store.commitlog.seals import SEALS
from ...store.delay import delays, timers
from ...store.disk.paths import CONFIG, HOLES, LAYOUT_FILE, OURS, PROGRESS, TOPICS, file_name
from ...store.errors import StoreError
from ...store.groups import ack_file, lease_journal
from ...store.recovery.log_begin import LOG_BEGIN
from ...store.topics import deletions, makers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .copier import Copier

#: Of `silomq/`: what the backup writes itself, and what is copied late.
_WRITTEN: Final = (PROGRESS, LOG_BEGIN, LAYOUT_FILE)
_LATE: Final = (deletions.FILE_NAME, f"{deletions.FILE_NAME}.bak", makers.FILE_NAME)
_TRIES: Final = 20


def copy_early(copier: Copier) -> None:
    """Copies what must not be ahead of the log: to be done before the end of the log is chosen.
    Raises OSError, StoreError if the files change all the time.
    """
    # Ack files and leases first: a member that leaves has its offsets in consumerOffset.json before
    # its file goes.
    for folder in (ack_file.FOLDER, lease_journal.FOLDER):
        _copy_folder(copier, f"{OURS}/{folder}")
    # The buckets of timers have at least what the slots of the schedule process count.
    names = [name for name in copier.source_names(OURS) if _is_early(name)]
    for name in sorted(names, key=lambda name: name != delays.FILE):
        _copy_if_there(copier, f"{OURS}/{name}")
    _copy_folder(copier, f"{OURS}/{timers.FOLDER}")
    for name in copier.source_names(CONFIG):
        if not name.startswith(TOPICS) and not name.endswith(".tmp"):
            _copy_if_there(copier, f"{CONFIG}/{name}")


def _is_early(name: str) -> bool:
    """Whether a file of `silomq/` is one that lasts, and is not copied late."""
    return name not in (*_WRITTEN, *_LATE) and not name.endswith(".tmp") and "-" not in name


def copy_late(copier: Copier) -> None:
    """Copies what must not be behind the log: topics, who made them, deletions, declared holes. To
    be done after the end of the log is chosen, because the registry notes a topic before the topic
    has a record.
    """
    # A deletion is noted before its topic leaves topics.json. A start finishes one that is noted.
    for name in (TOPICS, f"{TOPICS}.bak"):
        _copy_if_there(copier, f"{CONFIG}/{name}")
    for name in _LATE:
        _copy_if_there(copier, f"{OURS}/{name}")
    for name in (HOLES, f"{HOLES}.bak"):
        _copy_if_there(copier, name)


def copy_seals(copier: Copier, bases: Iterable[int]) -> None:
    """Copies the seals of the files at these offsets, as far as they have one."""
    copier.make_folder(f"{OURS}/{SEALS}")
    for base in bases:
        _copy_if_there(copier, f"{OURS}/{SEALS}/{file_name(base)}.json")


def remove_seal(copier: Copier, base: int) -> None:
    """Removes the seal of a file that the backup does not have."""
    copier.remove(f"{OURS}/{SEALS}/{file_name(base)}.json")


def deletions_of(copier: Copier) -> bytes:
    """What the source's file of deletions holds now, to see whether a topic was deleted."""
    return copier.source_bytes(f"{OURS}/{deletions.FILE_NAME}") or b""


def _copy_if_there(copier: Copier, path: str) -> None:
    with suppress(FileNotFoundError):
        copier.file(path, copier.source_size(path))


def _copy_folder(copier: Copier, path: str) -> None:
    """Copies the files of a folder, in which files are replaced and removed. Raises StoreError if
    it never stands still.
    """
    copier.make_folder(path)
    for _ in range(_TRIES):
        names = copier.source_names(path)
        copier.remove_others(path, names)
        try:
            for name in names:
                copier.file(f"{path}/{name}", copier.source_size(f"{path}/{name}"))
        except FileNotFoundError:
            continue
        if copier.source_names(path) == names:
            return
    raise StoreError(f"{copier.source.path}/{path}: its files change all the time; try again")
