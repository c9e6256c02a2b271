"""Builds what users install into `dist/`, and tries it: `make wheel`.

`python setup/release.py PYTHON...` makes an sdist, and of the sdist a wheel for each PYTHON.
auditwheel gives a wheel the tag of the oldest C library on which its compiled modules run. Each
wheel is then installed into an empty environment where no compiler can be found, and a store is
started there that takes one message and gives it back. `dist/` changes only when everything was
tried.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Runs in the environment that has the wheel alone.
TRIAL: Final = """
from silomq import Consumer, Producer
from silomq.testing.server import DevServer

with DevServer() as server, Producer(server.store) as producer:
    sent = producer.send("trial", "one message")
    with Consumer(server.store, "trial", offset="earliest") as consumer:
        (message,) = consumer.poll(max_messages=2, timeout=10.0)
        assert (message.body, message.message_id) == (b"one message", sent.message_id)
"""


class Failed(Exception):
    """A step failed. The message names the step, and has what it printed."""


def run(
    step: str, *words: str | Path, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> None:
    """Runs a command. Raises Failed with its output when its status is not 0."""
    done = subprocess.run(  # noqa: S603 - the words are not a shell's
        words,
        cwd=cwd,
        env=None if environ is None else {**environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        message = f"{step} failed with status {done.returncode}:\n{done.stdout}"
        raise Failed(message)


def environment(python: str | Path, folder: Path) -> Path:
    """The interpreter of a new virtual environment in `folder`."""
    run(f"Making an environment with {python}", python, "-m", "venv", folder)
    return folder / "bin" / "python"


def named_for_users(wheel: Path, into: Path) -> Path:
    """A copy of the wheel in `into`, tagged with the oldest C library that it runs on."""
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    into.mkdir()
    words = (sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", into, wheel)
    run("auditwheel", *words, environ=tools)
    (named,) = into.glob("*.whl")
    return named


def install_and_try(python: str | Path, wheel: Path, folder: Path) -> None:
    """Installs the wheel into a new environment in `folder`, with its requirements as wheels too
    and with no compiler on the path, and sends and reads a message there. Raises Failed.
    """
    inside = environment(python, folder / "env")
    bare = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    bare |= {"PATH": str(inside.parent), "CC": "no-compiler-here"}
    pip = (inside, "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    run("Installing the wheel", *pip, "--only-binary", ":all:", wheel, environ=bare)
    run("silo --version", inside.parent / "silo", "--version", environ=bare)
    run("Sending and reading a message", inside, "-P", "-c", TRIAL, environ=bare, cwd=folder)


def release(pythons: Sequence[str], root: Path, folder: Path) -> list[Path]:
    """The sdist of the tree at `root`, and a wheel for each of `pythons`: built and tried."""
    build = (sys.executable, "-m", "build", "--sdist", "--outdir", folder, root)
    run("Building the sdist", *build)
    (sdist,) = folder.glob("*.tar.gz")
    made = [sdist]
    for number, python in enumerate(pythons):
        place = folder / str(number)
        place.mkdir()
        inside = environment(python, place / "build")
        pip = (inside, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel")
        run(f"Building a wheel with {python}", *pip, "--no-deps", "-w", place, sdist)
        (raw,) = place.glob("*.whl")
        wheel = named_for_users(raw, place / "named")
        install_and_try(python, wheel, place)
        made.append(wheel)
    return made


def main(pythons: Sequence[str]) -> None:
    """Fills `dist/`; ends the process with a sentence if that fails, and then changes nothing."""
    root = Path(__file__).resolve().parent.parent
    if not pythons:
        sys.exit("Usage: release.py PYTHON...")
    missing = [python for python in pythons if shutil.which(python) is None]
    if missing:
        sys.exit(f"There is no {missing[0]}: name interpreters that are installed")
    with tempfile.TemporaryDirectory(prefix="silomq-release-") as folder:
        try:
            made = release(pythons, root, Path(folder))
        except Failed as error:
            sys.exit(str(error))
        dist = root / "dist"
        shutil.rmtree(dist, ignore_errors=True)
        dist.mkdir()
        for path in made:
            shutil.copy2(path, dist)
            print(dist / path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
