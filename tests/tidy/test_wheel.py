"""The wheel holds the package, all of it, and nothing else of the repository that is its folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from typing import TYPE_CHECKING

import pytest
from tidy.sources import PACKAGES, ROOMS, ROOT, files, project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with what is built already: generated C and extension modules.

    They are up to date by their times and so not compiled again, which would take a minute.
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
    (tree / ".names").mkdir(exist_ok=True)
    (tree / ".names" / "silomq").symlink_to("..")
    return tree


@pytest.mark.timeout(300)  # without build/ everything is compiled
def test_wheel_holds_the_package(tree: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-P", "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(tree)],
        check=True,
        env=os.environ | {"DIST_EXTRA_CONFIG": ""},
        stdin=subprocess.DEVNULL,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    info = f"silomq-{project()['project']['version']}.dist-info"
    assert found == _package_files() | {
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


def test_every_compiled_module_is_listed() -> None:
    listed = {source for module in _extensions() for source in module["sources"]}
    assert listed == {str(path) for path in files() if path.suffix == ".pyx"}


def test_every_compiled_module_names_its_headers() -> None:
    for module in _extensions():
        missing = [name for name in module["depends"] if not (ROOT / name).is_file()]
        assert not missing, module["name"]
        text = (ROOT / module["sources"][0]).read_text(encoding="utf-8")
        own = ROOT / module["sources"][0].replace(".pyx", ".pxd")
        text += own.read_text(encoding="utf-8") if own.exists() else ""
        headers = {str(p) for p in files() if p.suffix == ".h" and f'"{p}"' in text}
        assert headers <= set(module["depends"]), module["name"]


def test_every_package_is_listed() -> None:
    listed = project()["tool"]["setuptools"]["packages"]
    names = sorted((*PACKAGES, *(name.replace("/", ".") for name in ROOMS)))
    assert listed == ["silomq", *(f"silomq.{name}" for name in names), "pyspark_silomq"]


def _extensions() -> list[dict[str, list[str]]]:
    modules: list[dict[str, list[str]]] = project()["tool"]["setuptools"]["ext-modules"]
    return modules


def _package_files() -> set[str]:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    compiled = {f"silomq/{m['sources'][0].removesuffix('.pyx')}{suffix}" for m in _extensions()}
    shipped = {
        f"silomq/{path}"
        for path in files()
        if (len(path.parts) == 1 and path.name in {"__init__.py", "py.typed"})
        or (str(path.parent) in {*PACKAGES, *ROOMS} and path.suffix in {".py", ".pyi"})
        or (path.parts[0] == "conf" and path.suffix in {".toml", ".service"})
    }
    return {"silomq/py.typed", "pyspark_silomq/__init__.py", *shipped, *compiled}
