"""A worker's lines come whole, also if a pipe is full, and an ended harness is an error."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgspec
import pytest

from silomq.bench.harness.load.output import Output
from silomq.bench.harness.load.protocol import Said, Tick


def test_more_than_a_pipe_holds() -> None:
    theirs, ours = os.pipe()
    said = [Tick(n, publish="x" * 100_000) for n in range(20)]

    def say() -> None:
        output = Output(ours)
        for one in said:
            output.say(one)
        os.close(ours)

    worker = threading.Thread(target=say)
    worker.start()
    with open(theirs, "rb") as lines:
        found = [msgspec.json.decode(line, type=Said) for line in lines]
    worker.join()
    assert found == said


def test_a_file_and_a_harness_that_has_ended(tmp_path: Path) -> None:
    with (tmp_path / "lines").open("wb") as file:
        Output(file.fileno()).say(Tick(1))
    assert msgspec.json.decode(Path(file.name).read_bytes(), type=Said) == Tick(1)
    theirs, ours = os.pipe()
    os.close(theirs)
    with pytest.raises(BrokenPipeError):
        Output(ours).say(Tick(1))
    os.close(ours)
