"""`JavaClient`: RocketMQ's published Java client, which does what it is told (`java/`)."""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .rocketmq import Jvm

_END_S = 30.0


class JavaClient:
    """A running program, connected to the name server at `names`, that `cpu_seconds` tells the CPU
    time of.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], errors: Path, cpu_seconds: Callable[[], float]
    ) -> None:
        self._process = process
        self._errors = errors
        self._cpu_seconds = cpu_seconds

    def do(self, what: str, **values: object) -> dict[str, float]:
        """Does one order (Load.java). Returns its figures, and `cpu_s`: the CPU time of the server
        during the measured part. Raises RuntimeError if the program ends.
        """
        order = " ".join([what, *(f"{name}={value}" for name, value in values.items())])
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order}\n".encode())
        self._process.stdin.flush()
        before = self._cpu_seconds()
        for line in self._process.stdout:
            now = self._cpu_seconds()
            found = parse_line(line)
            if found is None:
                before = now
            else:
                return {**found, "cpu_s": now - before}
        raise RuntimeError(f"{order}: {self._errors.read_text(errors='replace')[-4000:]}")


def parse_line(line: bytes) -> dict[str, float] | None:
    """The figures that a line tells, None if it tells that the measured part begins. Raises
    ValueError.
    """
    found: dict[str, Any] = json.loads(line)
    kind = found.pop("kind")
    if kind not in ("begin", "end"):
        raise ValueError(f"a line of the kind {kind!a}")
    return None if kind == "begin" else {name: float(value) for name, value in found.items()}


@contextlib.contextmanager
def java_client(
    folder: Path, jvm: Jvm, names: str, cpu_seconds: Callable[[], float]
) -> Iterator[JavaClient]:
    """The program, which ends at the end. It puts its logs into `folder`."""
    folder.mkdir(exist_ok=True)
    command = jvm.command(folder, "silomq.bench.Load", names)
    errors = folder / "client.err"
    with (
        errors.open("wb") as err,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, cwd=folder
        ) as process,
    ):
        assert process.stdin is not None
        try:
            yield JavaClient(process, errors, cpu_seconds)
            process.stdin.close()
            process.wait(_END_S)
        finally:
            process.kill()
