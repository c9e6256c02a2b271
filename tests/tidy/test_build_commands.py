"""The build finds the same packages and dependencies as the compilers do."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from build_commands import dependencies, packages_in, users
from Cython.Build.Dependencies import create_dependency_tree
from Cython.Compiler.Main import Context
from Cython.Compiler.Options import CompilationOptions, default_options
from tidy.sources import PACKAGES, ROOMS, ROOT, files

if TYPE_CHECKING:
    from collections.abc import Mapping

MODULES = [path for path in files() if path.suffix == ".pyx"]


def write(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names = sorted((*PACKAGES, *(name.replace("/", ".") for name in ROOMS)))
    found = [name for name, _ in packages_in("silomq", Path(), {Path("pyspark_silomq")})]
    assert sorted(found) == ["silomq", *(f"silomq.{name}" for name in names)]


def test_dependencies_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        {
            "__init__.py": "",
            "a/__init__.py": "",
            "a/_x.pyx": "from silomq.a._y cimport f\nfrom silomq.a._z import g\n",
            "a/_x.pxd": 'cdef extern from "a/one.h" nogil:\n',
            "a/_y.pxd": "cimport silomq.b._w as w\nfrom libc.string cimport memcpy\n",
            "a/_z.pxd": "",
            "a/one.h": '#include <string.h>\n# include "b/two.h"\n#include "none.h"\n',
            "b/_w.pxd": 'cdef extern from *:\n    """\n    #include "b/three.h"\n    """\n',
            "b/two.h": '#include "a/one.h"\nvoid g() { USED(); }\n',
            "b/three.h": "#define USED() h()\n",
            "a/_v.pyx": 'cdef extern from "b/three.h":\n    pass\n',
        },
    )
    wanted = ["a/_x.pxd", "a/_y.pxd", "a/one.h", "b/_w.pxd", "b/three.h", "b/two.h"]
    assert sorted(map(str, dependencies(Path("a/_x.pyx")))) == wanted
    assert list(users("USED")) == [Path("a/_x.pyx")]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_the_compilers_say_the_same(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cython says which files a module names; the C compiler says what their headers include."""
    monkeypatch.chdir(ROOT)
    options = CompilationOptions(  # type: ignore[no-untyped-call]
        default_options, include_path=[".names"]
    )
    context = Context.from_options(options)  # type: ignore[no-untyped-call]
    tree = create_dependency_tree(context, quiet=True)  # type: ignore[no-untyped-call]
    named = {
        *tree.all_dependencies(str(module)),
        *tree.distutils_info(str(module)).values.get("depends", ()),
    }
    # Files of Cython and of the system are left out.
    paths = {Path(name.removeprefix(".names/silomq/")) for name in named}
    direct = (paths & set(files())) - {module}
    headers = {path for path in direct if path.suffix == ".h"}
    assert dependencies(module) == direct | included(headers)


def included(headers: set[Path]) -> set[Path]:
    """The headers, and the project's headers that they include, as the C compiler finds them."""
    done = subprocess.run(
        ["cc", "-MM", "-I.", "-x", "c", "-"],
        input="".join(f'#include "{path}"\n' for path in headers),
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.replace("\\\n", " ").split()
    return {Path(word) for word in words if word.endswith(".h")}
