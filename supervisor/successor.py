"""The new code's side of a change of code: `python -m silomq.supervisor.successor`.

`wait END READY STDERR`: a process that the running supervisor has started (`candidate.py`). It says
what it is, and waits for the state: for a rehearsal, or to become an actor of the store.

`supervise DOCUMENT`: the supervisor itself, after its exec. All descriptors are open.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import setproctitle

from .. import __version__
from ..conf.logging import configure, get_logger
from ..conf.settings import SettingError
from ..conf.standard_streams import open_missing
from ..shm import mail
from ..store.errors import StoreError
from . import handover
from .candidate import Hello, Verdict
from .handover import HandedActor, HandedStore
from .layouts import marks
from .main import Supervisor
from .processes import CLASSES

_STDERR: Final = 2


def wait(end_fd: int, ready_fd: int, stderr: int) -> int:
    """Says what this code is, and does what it is told. Returns the exit status."""
    setproctitle.setproctitle("silomq: new code")
    with socket.socket(fileno=end_fd) as end:
        for fd in (end_fd, ready_fd, stderr):
            os.set_inheritable(fd, False)  # noqa: FBT003 - os's own signature
        place = str(Path(__file__).resolve().parents[1])
        mail.send(end, Hello(__version__, place, marks()))
        received = handover.receive(end)
        if received is None:
            return 0
        document, fds = received
        handed: HandedActor | HandedStore = msgspec.json.decode(
            document, type=HandedActor | HandedStore
        )
        if isinstance(handed, HandedStore):
            mail.send(end, Verdict(rehearse(handed, fds)))
            return 0
    os.dup2(stderr, _STDERR)
    os.close(stderr)
    world = handover.unpack_world(handed.world, fds)
    settings = world.settings
    configure(world.store_name, handed.name, settings.log_level, settings.log_format)
    return CLASSES[handed.name](world).live(ready_fd)


def rehearse(handed: HandedStore, fds: dict[int, int]) -> str:
    """Takes the store over as the new supervisor will, but for doing anything. Returns why that
    fails, "" if it does not.
    """
    try:
        Supervisor.take_over(handed, fds)
    except SettingError as error:
        return f"a setting of the running store is none of the new code: {error}"
    except (StoreError, OSError) as error:
        return str(error)
    return ""


def supervise(document_fd: int) -> int:
    """Goes on as the supervisor of the store. Returns the exit status."""
    document = handover.read_all(document_fd)
    os.close(document_fd)
    handed = msgspec.json.decode(document, type=HandedStore)
    fds = dict(enumerate(handed.fds))
    for fd in handed.fds:
        os.set_inheritable(fd, False)  # noqa: FBT003 - os's own signature
    settings = handed.world.settings
    name = handed.world.store_name
    configure(name, "supervisor", settings["log_level"], settings["log_format"])
    try:
        supervisor = Supervisor.take_over(handed, fds)
    except Exception as error:  # noqa: BLE001 - the log says what it was
        get_logger().critical(
            "the new code cannot take the store over: it ends, and must be started again",
            error=repr(error), exc_info=True,
        )  # fmt: skip
        return 1
    return supervisor.go_on()


def main(arguments: Sequence[str]) -> int:
    """Does what the running supervisor asks for. Returns the exit status."""
    open_missing()
    match arguments:
        case ["wait", end, ready, stderr]:
            return wait(int(end), int(ready), int(stderr))
        case ["supervise", document]:
            return supervise(int(document))
    sys.stderr.write("silomq.supervisor.successor: only a running supervisor starts this\n")
    return 2


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)
