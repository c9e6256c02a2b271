"""The files of `config/` and `silomq/` that processes read and replace once the store runs.

A start looks at them before it changes anything: an actor that cannot read its file, or replace it,
would fail again and again, and the store would stop without a sentence that says why.
"""

from __future__ import annotations

from ..commitlog.seals import SEALS
from ..config import delay_offsets, offsets, request_modes
from ..delay import delays, rocketmq_timers, timers
from ..disk.files import Folder
from ..disk.paths import TOPICS, StoreFolders
from ..groups import ack_file, lease_journal
from ..topics import deletions, makers
from ..transactions import progress

#: What replacing a file leaves or needs beside it (`store/disk/replacing.py`).
_BESIDE = ("", ".bak", ".tmp", ".bak.tmp")


def check_state_files(folders: StoreFolders) -> None:
    """Raises Corrupt, which names the file, if the offsets or settings of groups or the progress of
    delay levels are unreadable, and their backups too. Raises OSError for a folder, a link or a
    FIFO in the place of a file. Changes nothing.
    """
    configs = (TOPICS, offsets.OFFSETS_FILE, offsets.GROUPS_FILE, request_modes.MODES_FILE)
    for name in (*configs, delay_offsets.FILE_NAME, rocketmq_timers.FILE_NAME):
        _must_be_files(folders.config, name)
    ours = (deletions.FILE_NAME, makers.FILE_NAME, offsets.BROADCAST_FILE)
    for name in (*ours, delays.FILE, progress.FILE):
        _must_be_files(folders.ours, name)
    for place in (timers.FOLDER, ack_file.FOLDER, lease_journal.FOLDER, SEALS):
        if folders.ours.has(place):
            with folders.ours.folder(place) as folder:
                for name in folder.names():
                    _must_be_file(folder, name)
    config, own = folders.config.path, folders.ours.path
    offsets.load(f"{config}/{offsets.OFFSETS_FILE}")
    offsets.load(f"{own}/{offsets.BROADCAST_FILE}")
    offsets.load_groups(f"{config}/{offsets.GROUPS_FILE}")
    request_modes.load(f"{config}/{request_modes.MODES_FILE}")
    delay_offsets.load(f"{config}/{delay_offsets.FILE_NAME}")


def _must_be_files(folder: Folder, name: str) -> None:
    for suffix in _BESIDE:
        if folder.has(name + suffix):
            _must_be_file(folder, name + suffix)


def _must_be_file(folder: Folder, name: str) -> None:
    with folder.file(name):
        pass
