"""Commands of setuptools that find packages, compiled modules and their dependencies.

pyproject.toml names the package and has one rule for its compiled modules. These commands find:

- the packages: each folder with an `__init__.py` whose parent folders have one too;
- the compiled modules: each file of a package that matches the rule's pattern;
- a module's dependencies: the C headers and `.pxd` files that its source names, and those that
  these files name in turn. When one of them changes, the module is compiled again.

`python setup/build_commands.py MACRO` prints the sources of the modules that use a C macro. The
Makefile uses it to find the modules with fault points.
"""

from __future__ import annotations

import copy
import os
import re
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from Cython.Build import cythonize
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import PlatformError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from setuptools import Extension

#: The package whose folder is the repository's root.
PACKAGE: Final = "silomq"
#: A module for the code that Cython would otherwise put into every module that uses memory views.
#: Compiling that code takes four seconds each time.
SHARED: Final = f"{PACKAGE}._cython"
_NAMED: Final = re.compile(
    r'^\s*(?:cdef extern from|#\s*include)\s+"(?P<header>[^"]+)"'
    rf"|^\s*(?:cimport|from(?=\s+[\w.]+\s+cimport\b))\s+{PACKAGE}\.(?P<module>[\w.]+)",
    re.MULTILINE,
)


def packages_in(
    name: str, folder: Path, others: Collection[Path] = ()
) -> Iterator[tuple[str, Path]]:
    """The package `name` in `folder` and all packages within it, each as (name, folder). Folders
    in `others` are left out.
    """
    yield name, folder
    for inside in sorted(folder.iterdir()):
        if inside not in others and (inside / "__init__.py").is_file():
            yield from packages_in(f"{name}.{inside.name}", inside)


def dependencies(source: Path) -> set[Path]:
    """The project's files that a Cython or C file includes, directly or through another one.

    Paths are relative to the root, where builds run: sources name headers relative to it, and the
    module silomq.shm.ring is shm/ring.pxd. System headers such as <string.h> are left out.
    """
    found: set[Path] = set()
    waiting = [source, source.with_suffix(".pxd")]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for named in _NAMED.finditer(path.read_text(encoding="utf-8")):
            header, module = named["header"], named["module"]
            waiting.append(Path(header or f"{module.replace('.', '/')}.pxd"))
    return found - {source}


def modules(rules: Iterable[Extension]) -> Iterator[Extension]:
    """The modules whose sources match the patterns of `rules`. A rule without a pattern is a module
    itself.
    """
    for rule in rules:
        if not any("*" in pattern for pattern in rule.sources):
            yield rule
            continue
        yield _like(rule, SHARED, [], set())
        for name, folder in packages_in(rule.name, Path()):
            for source in sorted(path for p in rule.sources for path in folder.glob(p)):
                yield _like(rule, f"{name}.{source.stem}", [str(source)], dependencies(source))


def _like(rule: Extension, name: str, sources: list[str], depends: set[Path]) -> Extension:
    """A module with the compiler options of a rule."""
    module = copy.copy(rule)
    module.name, module.sources = name, sources
    module.depends = sorted(str(path) for path in depends)
    return module


class BuildPackages(build_py):
    """`build_py` for the packages named in pyproject.toml and all packages within them."""

    command_name = "build_py"  # setuptools finds the command's options by it

    def finalize_options(self) -> None:
        super().finalize_options()
        roots = {Path(folder) for folder in self.package_dir.values()}
        tops = [(name, Path(self.get_package_dir(name))) for name in self.distribution.packages]
        self.packages = [name for top in tops for name, _ in packages_in(*top, roots)]

    def run(self) -> None:
        """Removes the files of earlier builds first, except compiled modules that are still wanted.

        The build folder is used again, and a wheel contains everything that is in it.
        """
        wanted = {Path(name) for name in self.get_finalized_command("build_ext").get_outputs()}
        for path in Path(self.build_lib).rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()
        super().run()


class BuildModules(build_ext):
    """`build_ext` for all modules that fit the rule in pyproject.toml."""

    command_name = "build_ext"

    def finalize_options(self) -> None:
        self.distribution.ext_modules = list(modules(self.distribution.ext_modules))
        super().finalize_options()

    def build_extensions(self) -> None:
        """Translates all modules to C one after the other, then compiles them in parallel.

        The command of setuptools would do both in several threads, but Cython is not thread-safe.
        """
        _check_machine()
        self._name_the_root()
        self._forget_unfinished()
        translated = cythonize(  # type: ignore[no-untyped-call]
            self.extensions,
            include_path=self.cython_include_dirs,
            build_dir=self.build_temp,
            shared_utility_qualified_name=SHARED,
            force=self.force,
        )
        self._mark.unlink()
        for module, found in zip(self.extensions, translated, strict=True):
            module.sources = found.sources
        self._link_whole_files()
        super().build_extensions()

    @property
    def _mark(self) -> Path:
        """A file that is there while sources are translated."""
        return Path(self.build_temp) / "unfinished"

    def _forget_unfinished(self) -> None:
        """Removes the C files that an interrupted build has written. It may have written a part of
        one, which is newer than its source.
        """
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        if self._mark.exists():
            began = self._mark.stat().st_mtime_ns
            for path in self._mark.parent.rglob("*.c"):
                if path.stat().st_mtime_ns >= began:
                    path.unlink()
        self._mark.touch()

    def _link_whole_files(self) -> None:
        """Has each module linked under another name, and renamed when it is whole. A part of one,
        left by an interrupted build, would be newer than its sources.
        """
        link = self.compiler.link_shared_object

        def link_whole(objects: list[str], output: str, *words: Any, **options: Any) -> None:
            part = f"{output}.part"
            Path(part).unlink(missing_ok=True)
            link(objects, part, *words, **options)
            os.replace(part, output)

        self.compiler.link_shared_object = link_whole

    def _name_the_root(self) -> None:
        """Makes a link to the root with the package's name, by which Cython finds .pxd files.

        The repository has this link, but an sdist cannot contain one.
        """
        for folder in self.cython_include_dirs:
            link = Path(folder) / PACKAGE
            if not link.exists():
                link.parent.mkdir(exist_ok=True)
                link.symlink_to("..")


def _check_machine() -> None:
    """Raises PlatformError with one sentence if the machine has no compiler or no headers. The
    compiler's own message would say neither what SiloMQ needs it for nor how to get it.
    """
    lacks = runpy.run_path(str(Path(__file__).with_name("check_machine.py")))["lacks"]()
    if lacks:
        raise PlatformError(lacks)


def users(macro: str) -> Iterator[Path]:
    """Sources of the compiled modules that use a C macro, directly or in a header that they
    include. The header that defines the macro does not count.
    """
    for _, folder in packages_in(PACKAGE, Path()):
        for source in sorted(folder.glob("*.pyx")):
            texts = (path.read_text("utf-8") for path in {source, *dependencies(source)})
            if any(macro in text and f"#define {macro}" not in text for text in texts):
                yield source


if __name__ == "__main__":
    print(*users(sys.argv[1]), sep="\n")
