"""The recorder's process: an ordinary user has it too, and waits for it."""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING

import msgspec
import pytest

from silomq.bench.harness.load.latencies import add, histogram
from silomq.bench.harness.load.protocol import Said, Tick
from silomq.bench.harness.load.recorder import Kind, Recorder

if TYPE_CHECKING:
    from pathlib import Path

_NOBODY = 65_534
_COUNT = 1 << 19  # 4 MiB of latencies: more than the pipe holds


@pytest.mark.parametrize("ordinary", [False, True])
def test_more_than_the_pipe_holds(tmp_path: Path, *, ordinary: bool) -> None:
    """Only root may raise the priority of a process that runs when a core is idle."""
    if ordinary and os.getuid() != 0:
        pytest.skip("only root can become another user")
    output = tmp_path / "lines"
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            fd = os.open(output, os.O_WRONLY | os.O_CREAT)
            if ordinary:
                os.setuid(_NOBODY)
            recorder = Recorder(fd)
            recorder.put(Kind.PUBLISH, 0, array("q", [5000] * _COUNT).tobytes())
            recorder.end_second(0, _COUNT, 0, 0)
            recorder.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    (line,) = output.read_bytes().splitlines()
    tick = msgspec.json.decode(line, type=Said)
    assert isinstance(tick, Tick)
    found = histogram()
    add(found, tick.publish)
    assert (found.get_total_count(), found.get_max_value()) == (_COUNT, 5)
