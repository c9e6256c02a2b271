"""Programs that run as other users than root, as which the tests run. Only root may start them."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .harness import PYTHON, StoreProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A group that every Linux has, and users that need no name.
GROUP: Final = "daemon"
USER: Final = 54321
OTHER: Final = 54322

# The interpreter and the package may lie in a folder of root's: they are loaded before.
BECOME = """
import grp, os, socket, sys
from silomq import Admin, Consumer, GroupConsumer, IllegalMessage, Producer
os.setgroups([])
os.setgid(grp.getgrnam("{group}").gr_gid)
os.setuid({uid})
"""
GREET = """
def greeted():
    end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    end.connect(sys.argv[1] + "/silomq.sock")
    end.send(b'{"do": "hello", "protocol": 2}')
    end.recv(65536)
    return end
"""


def run_as(uid: int, group: str, code: str, store: Path, **pipes: Any) -> subprocess.Popen[str]:
    """Runs a program as a user, with the group alone."""
    become = BECOME.format(uid=uid, group=group)
    return subprocess.Popen(
        [*PYTHON, "-c", become + GREET + code, str(store)],
        text=True,
        stdout=subprocess.PIPE,
        **pipes,
    )


class GroupStore(StoreProcess):
    """A store whose primary group is that of its clients."""

    @property
    def command(self) -> list[str]:
        code = (
            "import grp, os, sys; os.setgid(grp.getgrnam(sys.argv[1]).gr_gid); "
            "os.execv(sys.argv[2], sys.argv[2:])"
        )
        return [*PYTHON, "-c", code, str(self.settings["socket_group"]), *super().command]


@contextlib.contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder for a store that other users can reach; pytest's own folders are closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)
