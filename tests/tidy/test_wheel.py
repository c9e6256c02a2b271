"""Wheel and sdist contain the package, and no other file of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import release
from build_commands import SHARED
from tidy.sources import PACKAGES, ROOMS, ROOT, files, project

# Without the folder build/ these tests compile all modules.
pytestmark = pytest.mark.timeout(300)

PYTHON = (sys.executable, "-P")
#: Files of conf/ that are shipped.
DATA = {".toml", ".service", ".socket", ".sysusers", ".tmpfiles"}
#: A script in place of the C compiler: makes empty output files and lists them in the file `log`.
NOTING = """#!/bin/sh
for word do
    [ "$before" = -o ] && touch "$word" && echo "$word" >> "$(dirname "$0")/log"
    before=$word
done
"""


#: One that is killed while it writes a module.
DYING = """#!/bin/sh
for word do
    [ "$before" = -o ] && case "$word" in
        *.so*) echo broken > "$word"; kill -9 $$ ;;
        *) touch "$word" ;;
    esac
    before=$word
done
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with the results of its last build: C files and compiled modules.

    They are newer than their sources, so they are not compiled again, which would take half a
    minute. The copy also has built files of modules that do not exist, which no wheel may contain.
    """
    tree = tmp_path_factory.mktemp("wheel") / "tree"
    built = [
        path.relative_to(ROOT)
        for kind, pattern in (("lib", "*.so"), ("temp", "*.c"))
        for folder in (ROOT / "build").glob(f"{kind}.*-{sys.implementation.cache_tag}")
        for path in folder.rglob(pattern)
    ]
    for path in (*files(), *built):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, tree / path)
    lib = tree / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for name in ("store/gone.py", "store/_gone.so", "gone/__init__.py"):
        (lib / "silomq" / name).parent.mkdir(parents=True, exist_ok=True)
        (lib / "silomq" / name).touch()
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path) -> set[str]:
    """The names of the files in a wheel that is built from the tree."""
    return _wheel_of(tree)


def test_wheel_holds_the_package(wheel: set[str]) -> None:
    info = f"silomq-{project()['project']['version']}.dist-info"
    assert wheel == _package_files() | {
        f"{info}/{name}"
        for name in (
            "METADATA",
            "RECORD",
            "WHEEL",
            "entry_points.txt",
            "licenses/LICENSE",
            "top_level.txt",
        )
    }


def test_a_wheel_of_the_sdist_is_the_same(tree: Path, wheel: set[str], tmp_path: Path) -> None:
    _setuptools(tree, "sdist", "--dist-dir", str(tmp_path))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    shutil.copytree(tree / "build", unpacked / "build")
    assert _wheel_of(unpacked) == wheel


def test_a_wheel_needs_no_compiler_and_runs_on_old_systems(
    tree: Path, wheel: set[str], tmp_path: Path
) -> None:
    (raw,) = (tree / "dist").glob("*.whl")
    named = release.named_for_users(raw, tmp_path / "named")
    assert re.search(r"-manylinux_2_(\d+)_", named.name)[1] <= "28"  # type: ignore[index]
    release.install_and_try(sys.executable, named, tmp_path)


def test_a_step_of_a_release_that_fails_is_named() -> None:
    with pytest.raises(release.Failed, match=r"^Step one failed with status 3:\nbroken\n$"):
        release.run("Step one", "sh", "-c", "echo broken >&2; exit 3")


def test_a_release_for_no_such_python_changes_nothing() -> None:
    done = subprocess.run(
        [*PYTHON, str(ROOT / "setup" / "release.py"), "python2.99"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "There is no python2.99: name interpreters that are installed\n"


def test_an_edited_header_compiles_its_users_again(
    tree: Path, wheel: set[str], tmp_path: Path
) -> None:
    copy = shutil.copytree(tree, tmp_path / "copy", symlinks=True)
    compiler = tmp_path / "cc"
    compiler.write_text(NOTING)
    compiler.chmod(0o755)
    (tmp_path / "log").touch()
    _setuptools(copy, "build_ext", environ={"CC": str(compiler)})
    assert (tmp_path / "log").read_text() == ""
    (copy / "store" / "consumequeue" / "entries.h").touch()
    _setuptools(copy, "build_ext", environ={"CC": str(compiler)})
    made = {Path(name).name.partition(".")[0] for name in (tmp_path / "log").read_text().split()}
    assert made == {
        "_assigned_queue",
        "_columns",
        "_dispatch",
        "_fast_pull",
        "_follow",
        "_log",
        "_mapped_queue",
        "_queue",
        "_quick_turns",
        "_records",
    }


def test_a_build_that_was_interrupted_leaves_no_part_of_a_module(
    tree: Path, wheel: set[str], tmp_path: Path
) -> None:
    """A module of which a part was written would be newer than its sources, and stay."""
    copy = shutil.copytree(tree, tmp_path / "copy", symlinks=True)
    compiler = tmp_path / "cc"
    compiler.write_text(DYING)
    compiler.chmod(0o755)
    header = copy / "store" / "consumequeue" / "entries.h"
    header.touch()
    with pytest.raises(subprocess.CalledProcessError):
        _setuptools(copy, "build_ext", environ={"CC": str(compiler)})
    assert any((copy / "build").rglob("*.so.part")), "it was interrupted while it wrote a module"
    compiler.write_text(NOTING)
    (tmp_path / "log").touch()
    _setuptools(copy, "build_ext", environ={"CC": str(compiler)})
    made = {Path(name).name.partition(".")[0] for name in (tmp_path / "log").read_text().split()}
    assert {"_columns", "_dispatch", "_queue"} <= made, "the modules are not made again"
    assert not any("broken" in path.read_text("latin-1") for path in copy.rglob("*.so"))


def test_an_interrupted_translation_is_made_again(
    tree: Path, wheel: set[str], tmp_path: Path
) -> None:
    copy = shutil.copytree(tree, tmp_path / "copy", symlinks=True)
    (temp,) = {path.parents[1] for path in (copy / "build").rglob("shm/_words.c")}
    (temp / "unfinished").touch()
    part = temp / "shm" / "_words.c"
    part.write_text("part of a C file")
    compiler = tmp_path / "cc"
    compiler.write_text(NOTING)
    compiler.chmod(0o755)
    _setuptools(copy, "build_ext", environ={"CC": str(compiler)})
    assert part.read_text() != "part of a C file"
    assert not (temp / "unfinished").exists()


def _wheel_of(tree: Path) -> set[str]:
    shutil.rmtree(tree / "dist", ignore_errors=True)
    pip = [*PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tree / "dist"), str(tree)],
        check=True,
        env=os.environ | {"DIST_EXTRA_CONFIG": ""},
        stdin=subprocess.DEVNULL,
    )
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _setuptools(tree: Path, *words: str, environ: dict[str, str] | None = None) -> None:
    subprocess.run(
        [*PYTHON, "-c", "import setuptools; setuptools.setup()", "--quiet", *words],
        cwd=tree,
        check=True,
        env=os.environ | {"DIST_EXTRA_CONFIG": ""} | (environ or {}),
        stdin=subprocess.DEVNULL,
    )


def _package_files() -> set[str]:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = [f"silomq/{path.with_suffix('')}" for path in files() if path.suffix == ".pyx"]
    compiled = {f"{module}{suffix}" for module in (*modules, SHARED.replace(".", "/"))}
    shipped = {
        f"silomq/{path}"
        for path in files()
        if (len(path.parts) == 1 and path.name in {"__init__.py", "py.typed"})
        or (str(path.parent) in {*PACKAGES, *ROOMS} and path.suffix in {".py", ".pyi"})
        or (path.parent.name in ("suite", "workload") and path.suffix == ".toml")
        or (path.parts[0] == "conf" and path.suffix in DATA)
        or (path.parts[0] == "monitor" and path.suffix == ".json")
    }
    return {"silomq/py.typed", "pyspark_silomq/__init__.py", *shipped, *compiled}
