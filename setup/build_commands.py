"""The commands of setuptools that find what pyproject.toml describes by rules instead of lists.

pyproject.toml names the package and has one rule for its compiled modules. These commands find:

- the packages: each folder with an `__init__.py` that is reached through such folders;
- the compiled modules: each file of a package that fits the rule's pattern;
- what a module depends on: the C headers and the `.pxd` files that its source names, and those
  that they name in turn. An edit of one of them compiles the module again.

`python setup/build_commands.py MACRO` prints the sources of the modules that use a C macro. The
Makefile asks which modules have fault points.
"""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from Cython.Build import cythonize
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from setuptools import Extension

#: The package whose folder is the repository's root.
PACKAGE: Final = "silomq"
#: One module for the code that Cython would put into every module that uses memory views. That
#: code takes a C compiler four seconds each time.
SHARED: Final = f"{PACKAGE}._cython"
_NAMED: Final = re.compile(
    r'^\s*(?:cdef extern from|#\s*include)\s+"(?P<header>[^"]+)"'
    rf"|^\s*(?:cimport|from(?=\s+[\w.]+\s+cimport\b))\s+{PACKAGE}\.(?P<module>[\w.]+)",
    re.MULTILINE,
)


def packages_in(
    name: str, folder: Path, others: Collection[Path] = ()
) -> Iterator[tuple[str, Path]]:
    """The package `name` and those within it, with their folders; `others` are not looked into."""
    yield name, folder
    for inside in sorted(folder.iterdir()):
        if inside not in others and (inside / "__init__.py").is_file():
            yield from packages_in(f"{name}.{inside.name}", inside)


def dependencies(source: Path) -> set[Path]:
    """The project's files that a Cython or C file needs, directly or through one of them.

    Paths are relative to the root, where builds run: a header is named relative to it, and
    silomq.shm.ring is shm/ring.pxd. What lies elsewhere, as <string.h>, is not the project's.
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
    """The modules that fit the patterns of `rules`; a rule without a pattern is one module."""
    for rule in rules:
        if not any("*" in pattern for pattern in rule.sources):
            yield rule
            continue
        yield _like(rule, SHARED, [], set())
        for name, folder in packages_in(rule.name, Path()):
            for source in sorted(path for p in rule.sources for path in folder.glob(p)):
                yield _like(rule, f"{name}.{source.stem}", [str(source)], dependencies(source))


def _like(rule: Extension, name: str, sources: list[str], depends: set[Path]) -> Extension:
    """A module that is compiled as the rule says."""
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
        """Removes first what was built before, but for compiled modules that are still wanted.

        The folder outlives a build, and a wheel is made of all that is in it.
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
        """Translates all modules, one after the other, then compiles them side by side.

        The command of setuptools would do both in several threads, which Cython is not made for.
        """
        self._name_the_root()
        translated = cythonize(  # type: ignore[no-untyped-call]
            self.extensions,
            include_path=self.cython_include_dirs,
            build_dir=self.build_temp,
            shared_utility_qualified_name=SHARED,
            force=self.force,
        )
        for module, found in zip(self.extensions, translated, strict=True):
            module.sources = found.sources
        super().build_extensions()

    def _name_the_root(self) -> None:
        """Gives the root the package's name: Cython looks for .pxd files by it.

        The repository has this link, an sdist cannot hold one.
        """
        for folder in self.cython_include_dirs:
            link = Path(folder) / PACKAGE
            if not link.exists():
                link.parent.mkdir(exist_ok=True)
                link.symlink_to("..")


def users(macro: str) -> Iterator[Path]:
    """Sources of the compiled modules that use a C macro; its definition is no use of it."""
    for _, folder in packages_in(PACKAGE, Path()):
        for source in sorted(folder.glob("*.pyx")):
            texts = (path.read_text("utf-8") for path in {source, *dependencies(source)})
            if any(macro in text and f"#define {macro}" not in text for text in texts):
                yield source


if __name__ == "__main__":
    print(*users(sys.argv[1]), sep="\n")
