"""`make mutants`: plants known bugs one at a time, and shows that a test finds each of them.

Each `planted/*.toml` is one bug: `seen` (what a user would see), `file`, `old` (text that occurs in
it once), `new`, and `tests` (pytest's node ids, each of which must fail). A bug is planted in a
copy of the installed package, never in the sources. A bug in compiled code is planted in a copy of
the sources, which is built there; only the modules that the bug touches are compiled again. With
`faults = true` the tests get a fault build (`make fault-build`) that has the bug.

First the tests run without any bug, and must pass. Exit status 0 if all bugs were found.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import silomq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).with_name("planted")
INSTALLED = Path(silomq.__file__).parent
COMPILED = frozenset((".pyx", ".pxd", ".h"))
LIMIT_S = 300
_FIELDS = frozenset(("seen", "file", "old", "new", "tests", "faults"))


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    name: str
    seen: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    faults: bool = False

    @property
    def compiled(self) -> bool:
        return Path(self.file).suffix in COMPILED

    def planted_in(self, text: str) -> str:
        """The file's text with the bug. Raises ValueError unless the place is there once, and
        SyntaxError for Python that is none.
        """
        count = text.count(self.old)
        if count != 1:
            raise ValueError(
                f"{self.name}: the text to replace occurs {count} times in {self.file}"
            )
        text = text.replace(self.old, self.new)
        if not self.compiled:
            compile(text, self.file, "exec")
        return text


def mutants() -> list[Mutant]:
    """All planted bugs, by name. Raises ValueError for a file that is not well-formed."""
    found = []
    for path in sorted(PLANTED.glob("*.toml")):
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
        if not _FIELDS - {"faults"} <= set(fields) <= _FIELDS:
            raise ValueError(f"{path.name}: the fields are {', '.join(sorted(_FIELDS))}")
        fields["tests"] = tuple(fields["tests"])
        found.append(Mutant(name=path.stem, **fields))
    return found


@contextlib.contextmanager
def planted(mutant: Mutant | None) -> Iterator[dict[str, str]]:
    """The environment in which Python imports a package with the bug, or without any."""
    with tempfile.TemporaryDirectory(prefix="silomq-mutant-") as scratch:
        into = Path(scratch) / "package"
        if mutant is not None and mutant.compiled:
            _build(mutant, Path(scratch) / "sources", into)
        else:
            _copy(mutant, into)
        environment = os.environ | {"PYTHONPATH": str(into)}
        if mutant is not None and mutant.faults:
            environment["SILOMQ_FAULT_BUILD"] = str(into)
        where = [sys.executable, "-P", "-c", "import silomq; print(silomq.__file__)"]
        imported = subprocess.check_output(where, env=environment, text=True)
        assert imported.startswith(str(into)), f"{imported} is imported, and not the planted one"
        yield environment


def _copy(mutant: Mutant | None, into: Path) -> None:
    """A copy of the installed package with the bug, or without any. Files that do not change are
    hard links.
    """
    faults = mutant is not None and mutant.faults
    base = Path(os.environ["SILOMQ_FAULT_BUILD"]) / "silomq" if faults else INSTALLED
    target = into / "silomq"
    caches = shutil.ignore_patterns("__pycache__")
    try:
        shutil.copytree(base, target, copy_function=os.link, ignore=caches)
    except shutil.Error:  # another file system has no hard links to this one
        shutil.copytree(base, target, ignore=caches, dirs_exist_ok=True)
    if mutant is None:
        return
    changed = target / mutant.file
    text = mutant.planted_in(changed.read_text(encoding="utf-8"))
    changed.unlink()
    changed.write_text(text, encoding="utf-8")


def _build(mutant: Mutant, sources: Path, into: Path) -> None:
    """Builds a copy of the sources with the bug. Times of files are kept, so that only what the bug
    changes is compiled again.
    """
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
    for name in filter(None, names):
        if name.startswith("tests/") or not (ROOT / name).is_file():
            continue
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, sources / name)
    flags = os.environ.get("CFLAGS", "")
    built = ROOT / "build"
    if mutant.faults:  # as the Makefile builds it
        built, flags = built / "faults-work", f"{flags} -DSILO_FAULT_POINTS=1"
    for folder in built.glob("*.linux-*"):
        shutil.copytree(folder, sources / "build" / folder.name, copy_function=shutil.copy2)
    changed = sources / mutant.file
    changed.write_text(mutant.planted_in(changed.read_text(encoding="utf-8")), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(into)]
    subprocess.run([*pip, *options, str(sources)], env=os.environ | {"CFLAGS": flags}, check=True)


def fails(test: str, environment: dict[str, str]) -> bool | str:
    """Whether the test fails in that environment; a text if it neither fails nor passes."""
    pytest = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    try:
        done = subprocess.run(
            pytest,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    last = done.stdout.rstrip().rpartition("\n")[2]
    if done.returncode == 1 and re.search(r"\b\d+ failed\b", last):
        return True
    if done.returncode == 0 and re.search(r"\b\d+ passed\b", last):
        return False
    return f"pytest ended with status {done.returncode}: {last}"


def without_bugs(chosen: Sequence[Mutant]) -> list[str]:
    """What is wrong with the tests when no bug is planted."""
    wrong = []
    with planted(None) as environment:
        for test in sorted({test for mutant in chosen for test in mutant.tests}):
            outcome = fails(test, environment)
            if outcome is not False:
                wrong.append(f"{test}: {'fails' if outcome is True else outcome}")
    return wrong


def is_found(mutant: Mutant) -> str:
    """What happened instead, unless each of the mutant's tests fails."""
    with planted(mutant) as environment:
        for test in mutant.tests:
            outcome = fails(test, environment)
            if outcome is not True:
                return f"{test}: {'passes' if outcome is False else outcome}"
    return ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="make mutants")
    parser.add_argument(
        "--only", metavar="TEXT", action="append", help="names that contain TEXT, or another TEXT"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    wanted = options.only or [""]
    chosen = [mutant for mutant in mutants() if any(text in mutant.name for text in wanted)]
    if options.sample is not None:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    for mutant in chosen:  # before the long work
        mutant.planted_in((ROOT / mutant.file).read_text(encoding="utf-8"))
    wrong = without_bugs(chosen)
    for line in wrong:
        print(f"without any bug: {line}")
    missed = 0
    for mutant in chosen if not wrong else ():
        began = time.monotonic()
        why = is_found(mutant)
        missed += bool(why)
        took = f"{time.monotonic() - began:.0f} s"
        print(f"{mutant.name}: {'NOT FOUND: ' + why if why else 'found'} ({took})", flush=True)
    if not wrong:
        print(f"{len(chosen) - missed} of {len(chosen)} planted bugs were found")
    return int(bool(wrong or missed or not chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
