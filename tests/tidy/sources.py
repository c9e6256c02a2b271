"""The lists of the repository's files for the tests in this folder."""

from __future__ import annotations

import ast
import functools
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "actors", "bench", "broker", "cli", "client", "conf", "monitor", "names", "pipeline",
    "shm", "store", "supervisor", "testing", "tools",
)  # fmt: skip


@functools.cache
def files() -> tuple[Path, ...]:
    """All files that git tracks or would add, relative to ROOT. In an unpacked sdist, all files."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = [Path(name) for name in listed.stdout.decode().split("\0") if name]
    else:
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
        names = [path for path in names if path.parts[0] not in {".venv", "build"}]
    # A deleted file is listed until the deletion is committed, and .names/silomq is a link to ROOT.
    return tuple(sorted(p for p in names if (ROOT / p).is_file() and p.parts[0] != ".names"))


def sources(*suffixes: str, tests: bool = False) -> list[Path]:
    """The package's files with one of `suffixes`. With `tests`, those of the tests as well."""
    folders = {*PACKAGES, "tests"} if tests else {*PACKAGES}
    return [
        path
        for path in files()
        if path.suffix in suffixes and (len(path.parts) == 1 or path.parts[0] in folders)
    ]


def of_each(paths: Iterable[Path]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Makes of a check of one file a test of all `paths`, which lists all that fail. As a test for
    each file they were two thirds of all tests, and each worker collected all of them.
    """
    paths = tuple(paths)

    def decorate(check: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            assert paths
            failures = []
            for path in paths:
                try:
                    check(path)
                except AssertionError as error:
                    failures.append(f"{path}: {error}")
                except Exception as error:
                    error.add_note(f"in {path}")
                    raise
            assert not failures, "\n".join(failures)

        test.__doc__ = check.__doc__
        return test

    return decorate


def module_name(path: Path) -> str:
    """The name under which a file of the package is imported."""
    parts = path.with_suffix("").parts
    return ".".join(("silomq", *(parts[:-1] if parts[-1] == "__init__" else parts)))


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file, which a test must not change."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@functools.cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a syntax tree, as `ast.walk` yields them."""
    return tuple(ast.walk(tree))


@functools.cache
def project() -> dict[str, Any]:
    """pyproject.toml, parsed."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


#: The rooms: folders within packages that are packages as well, such as "store/disk".
ROOMS = tuple(
    str(path.parent)
    for path in sources(".py")
    if path.name == "__init__.py" and len(path.parts) > 2
)
