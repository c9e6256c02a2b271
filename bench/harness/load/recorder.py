"""A process beside a worker that makes histograms of its latencies and writes its lines.

It gets frames over a pipe: a kind, a second, a size, then as many bytes. It is a process of its own
because a histogram takes milliseconds, in which the worker would send nothing. It fills its
histograms once a second, and the kernel runs it when a core has nothing else to do (SCHED_IDLE):
otherwise it would take the core from the processes that are measured. If the pipe fills up, the
worker waits for it.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import os
import signal
import struct
import sys
from typing import TYPE_CHECKING

import msgspec

from . import latencies
from .protocol import Tick

if TYPE_CHECKING:
    from .protocol import Said

_FRAME = struct.Struct("<BIQ")
_COUNTS = struct.Struct("<QQQ")
_PIPE_BYTES = 1 << 20


class Kind(enum.IntEnum):
    """What a frame holds: latencies (ns, int64) of a kind, the end of a second, or a line."""

    PUBLISH = 0
    DURABLE = 1
    DELAY = 2
    END_TO_END = 3
    SECOND = 4
    LINE = 5


class Recorder:
    """The worker's end. `output` is the descriptor that the lines go to. Forks: no thread may run
    yet.
    """

    def __init__(self, output: int) -> None:
        theirs, self._fd = os.pipe()
        with contextlib.suppress(OSError):  # less only means that the worker waits sooner
            fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._fd)
            status = 1
            try:
                _record(theirs, output)
                status = 0
            except Exception as error:  # noqa: BLE001 - the parent's stack must not go on here
                print(f"the worker's recorder: {error!r}", file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        os.close(theirs)
        os.set_blocking(self._fd, False)

    def put(self, kind: Kind, second: int, data: bytes) -> None:
        """Sends a frame. Raises BrokenPipeError if the recorder has ended."""
        left = memoryview(_FRAME.pack(kind, second, len(data)) + data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                self._hurry()

    def _hurry(self) -> None:
        """Has the recorder run beside others, and waits for it from now on. An ordinary user may
        not change it: then this process waits, which leaves a core to it.
        """
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(self._pid, os.SCHED_OTHER, os.sched_param(0))
        os.set_blocking(self._fd, True)

    def end_second(self, second: int, messages: int, size: int, errors: int) -> None:
        """Has the tick of a second written."""
        self.put(Kind.SECOND, second, _COUNTS.pack(messages, size, errors))

    def say(self, what: Said) -> None:
        """Has a line written, behind those that were ordered before."""
        self.put(Kind.LINE, 0, msgspec.json.encode(what))

    def close(self) -> None:
        """Waits until everything is written. Raises RuntimeError if it could not be."""
        self._hurry()
        os.close(self._fd)
        _, status = os.waitpid(self._pid, 0)
        if status:
            raise RuntimeError("the worker's recorder has failed")


def _record(source: int, output: int) -> None:
    """The recorder's own loop, until the worker closes the pipe."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the worker's end is the recorder's
    latencies.warm_up()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    values = [bytearray() for _ in range(Kind.SECOND)]
    found = [latencies.histogram() for _ in range(Kind.SECOND)]
    with open(source, "rb") as frames, open(output, "wb", closefd=False) as lines:
        while head := frames.read(_FRAME.size):
            kind, second, size = _FRAME.unpack(head)
            data = frames.read(size)
            if kind == Kind.LINE:
                lines.write(data + b"\n")
            elif kind == Kind.SECOND:
                messages, amount, errors = _COUNTS.unpack(data)
                for one, of_second in zip(found, values, strict=True):
                    latencies.record(one, of_second)
                    of_second.clear()
                encoded = [latencies.encode(one) for one in found]
                tick = Tick(second, messages, amount, errors, *encoded)
                lines.write(msgspec.json.encode(tick) + b"\n")
                for one in found:
                    one.reset()
            else:
                values[kind] += data
            if kind >= Kind.SECOND:
                lines.flush()
