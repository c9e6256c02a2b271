"""A supervisor that cannot start its store closes what it opened."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support import small_settings
from support.open_files import nothing_stays_open
from support.starts import FILE_SIZE
from support.store_files import Store, batches

from silomq.shm import segments
from silomq.store.disk.paths import StoreFolders, file_name
from silomq.store.errors import StoreError
from silomq.supervisor.claim import AlreadyRunning
from silomq.supervisor.prepare import prepare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def newer_layout(path: Path) -> None:
    (path / "silomq" / "layout").write_text("99\n")


def damaged_log(path: Path) -> None:
    store = Store(path / "made", batches(7, 60), file_size=FILE_SIZE)
    data = bytearray(b"".join(f.read_bytes() for f in sorted((path / "made/commitlog").iterdir())))
    data[store.ends[3] + 4] ^= 1
    (path / "commitlog" / file_name(0)).write_bytes(data[:FILE_SIZE].ljust(1 << 17, b"\0"))


def other_file_size(path: Path) -> None:
    (path / "commitlog" / file_name(0)).write_bytes(bytes(4096))


def no_room_for_the_socket(path: Path) -> None:
    (path / "silomq.sock").mkdir()


@pytest.mark.parametrize(
    "harm", [newer_layout, damaged_log, other_file_size, no_room_for_the_socket]
)
def test_a_supervisor_that_cannot_start_leaves_nothing(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    settings = small_settings.load(tmp_path, small_settings.ROLLING)
    StoreFolders(tmp_path, create=True).close()
    harm(tmp_path)
    with nothing_stays_open(), pytest.raises((StoreError, OSError)):
        prepare(settings)
    assert segments.leftovers(segments.store_identity(tmp_path)) == []


def test_a_python_package_is_no_store(tmp_path: Path) -> None:
    """In a clone of SiloMQ the default folder, `store`, is one."""
    (tmp_path / "__init__.py").touch()
    with nothing_stays_open(), pytest.raises(StoreError, match="Python package"):
        prepare(small_settings.load(tmp_path, small_settings.ROLLING))
    assert [file.name for file in tmp_path.iterdir()] == ["__init__.py"]


def test_a_store_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    settings = small_settings.load(tmp_path, small_settings.ROLLING)
    with (
        StoreFolders(tmp_path, create=True),
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path / "lock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with nothing_stays_open(), pytest.raises(AlreadyRunning):
            prepare(settings)
        holder.communicate()
