"""The first moments of a command: Ctrl-C while it is imported, and a store of another version."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.commands import sentence, silo
from support.harness import StoreProcess

from silomq import Admin, StoreError
from silomq.shm import segments
from silomq.shm.control import CONTROL, LAYOUT_VERSION
from silomq.shm.history import METRICS_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Stands for a Ctrl-C that comes while a module is imported.
INTERRUPTED = """
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from silomq.cli.main import main
sys.exit(main(["status"]))
"""


@pytest.mark.parametrize("name", ["click", "silomq.cli.commands", "silomq.cli.shared.outcome"])
def test_ctrl_c_during_the_import_says_nothing(name: str) -> None:
    code = INTERRUPTED.format(name=name)
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("command", ["status", "topics", "top", "groups", "metrics"])
def test_a_store_of_another_version_is_one_sentence(command: str, other: Path) -> None:
    said = sentence(silo(command, store=other, status=1))
    assert "is of another version" in said
    assert "use the same SiloMQ version" in said
    assert "internal error" not in said


def test_a_program_gets_a_store_error(other: Path) -> None:
    with pytest.raises(StoreError, match="another version"):
        Admin(other)


def test_so_is_a_metrics_page_of_another_version(tmp_path: Path) -> None:
    with StoreProcess(tmp_path / "store") as store:
        write_word(store.path, METRICS_SEGMENT, 8, 99)
        assert "another version" in sentence(silo("status", store=store.path, status=1))


def write_word(store: Path, kind: str, at: int, value: int) -> None:
    """Writes a word of the store's shared memory, as a store of another version would have it."""
    path = f"/dev/shm/{segments.object_name(segments.store_identity(store), kind)[1:]}"
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(value.to_bytes(8, "little"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with StoreProcess(tmp_path_factory.mktemp("other") / "store") as store:
        at = CONTROL["layout_version"][0]
        write_word(store.path, "control", at, 99)
        yield store.path
        write_word(store.path, "control", at, LAYOUT_VERSION)
