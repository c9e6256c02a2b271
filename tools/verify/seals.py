"""Compares commit-log files with their seals, which the store wrote when they were full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...store.commitlog.log import CommitLog
from ...store.commitlog.seals import SEALS, Seals, seal_of
from ...store.disk.paths import OURS, file_name
from ...store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...store.disk.paths import StoreFolders


def check_seals(folders: StoreFolders, file_size: int) -> Iterator[tuple[str, int, str]]:
    """Compares sealed files with their seals. Yields (path, position, what is wrong).

    A sealed file that is missing is no finding: clean removes a file first and its seal later.
    """
    if SEALS not in folders.ours.names():
        return
    log = CommitLog(folders, file_size)
    with Seals(folders) as seals:
        yield from _wrong(folders, log, seals)


def _wrong(folders: StoreFolders, log: CommitLog, seals: Seals) -> Iterator[tuple[str, int, str]]:
    there = set(log.bases())
    for base in seals.bases():
        if base not in there:
            continue
        path = f"{folders.root.path}/{OURS}/{SEALS}/{file_name(base)}.json"
        try:
            said, now = seals.read(base), seal_of(log, base)
        except StoreError as error:
            yield path, 0, str(error)
            continue
        if said is not None and said != now:
            names = [name for name in said.__slots__ if getattr(said, name) != getattr(now, name)]
            what = f"the file is not what was sealed: {', '.join(names)} differ"
            yield f"{folders.commit_log.path}/{file_name(base)}", base, what
