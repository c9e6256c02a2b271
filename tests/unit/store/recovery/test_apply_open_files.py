"""What start-up opens it closes, also when it fails."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.open_files import nothing_stays_open
from support.starts import FILE_SIZE, restart, save_progress
from support.store_files import Store, batches

from silomq.store.disk.paths import file_name
from silomq.store.errors import Corrupt, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def damage(store: Store, number: int) -> None:
    """Good records go on behind a bad one."""
    at = store.ends[number]
    with store.folders.commit_log.file(file_name(at - at % FILE_SIZE), write=True) as fd:
        os.pwrite(fd, b"\xff" * 8, at % FILE_SIZE)


def damage_index(store: Store, _number: int) -> None:
    with store.folders.index.file(str(store.index.names()[-1]), write=True) as fd:
        os.ftruncate(fd, 100)


def tear(store: Store, number: int) -> None:
    """Nothing good behind: it is cut off and kept, and seals and queues are looked at."""
    end = store.ends[number]
    for base in store.log.bases():
        with store.folders.commit_log.file(file_name(base), write=True) as fd:
            start = max(0, end - base)
            if start < FILE_SIZE:
                os.pwrite(fd, bytes(FILE_SIZE - start), start)
                os.pwrite(fd, b"\xff" * 8, start)


@pytest.mark.parametrize(
    ("harm", "error"),
    [(None, None), (tear, None), (damage, Corrupt), (damage_index, StoreError)],
)
def test_start_up_closes_what_it_opens(
    harm: Callable[[Store, int], None] | None, error: type[Exception] | None, tmp_path: Path
) -> None:
    store = Store(tmp_path, batches(7, 60), file_size=FILE_SIZE)
    store.dispatch()
    if harm is damage_index:  # which nobody needs unless dispatch is to go on with it
        save_progress(store, store.ends[-1])
    if harm:
        harm(store, 20)
    with nothing_stays_open():
        for _ in range(3):
            if error:
                with pytest.raises(error):
                    restart(store)
            else:
                restart(store)
