"""Redis Streams with an append-only file, by redis-py."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from ....loopback import free_port, listens
from ..processes import precise, running
from ..target import Durability, Facts, NotOffered
from .installed import missing, peers
from .server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..target import Wanted


def _program() -> Path:
    return peers("redis", "usr", "bin", "redis-server")


def _environment() -> dict[str, str]:
    libraries = sorted(str(one) for one in peers("redis", "usr", "lib").glob("*-linux-gnu*"))
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}


def _version() -> str:
    said = subprocess.run(
        [_program(), "--version"], env=_environment(), capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"v=([\d.]+)", said)
    return found[1] if found else "unknown"


#: What `appendfsync` makes of an answer: Redis's `flushAppendOnlyFile`, which runs before answers
#: are sent. With everysec it puts off the write while an earlier sync is under way.
_POLICIES = {
    "always": (Durability.DISK, "The append-only file was synced before the answer."),
    "everysec": (
        Durability.PROCESS_MEMORY,
        "The append-only file was written, or will be when the sync under way has ended.",
    ),
    "no": (Durability.SYSTEM_MEMORY, "The append-only file was written before the answer."),
}


def _policy(wanted: Wanted) -> str:
    policy = wanted.settings.get("appendfsync", "always" if wanted.flush == "sync" else "everysec")
    if policy not in _POLICIES:
        raise NotOffered(f"Redis's appendfsync is one of {', '.join(_POLICIES)}, not {policy!r}")
    return policy


def facts(version: str, policy: str) -> Facts:
    """What an answer means with a policy of `appendfsync`."""
    durability, said = _POLICIES[policy]
    return Facts(
        title="Redis Streams, by redis-py",
        version=version,
        acknowledged=f"{said} (appendfsync {policy})",
        durability=durability,
        send_calls=frozenset({"send", "async", "batch"}),
        read_calls=frozenset({"poll"}),
    )


class Redis:
    """Each queue of each topic is a stream, TOPIC:QUEUE. `Wanted.settings` are those of its
    file of settings.
    """

    name = "redis"

    def missing(self) -> str:
        return missing("Redis", _program(), modules=("redis",))

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[Server]:
        policy, port = _policy(wanted), free_port()
        settings = {
            "bind": "127.0.0.1",
            "port": str(port),
            "dir": str(folder),
            "save": '""',
            "appendonly": "yes",
            **wanted.settings,
            "appendfsync": policy,
        }
        file = folder / "redis.conf"
        file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        command = precise([str(_program()), str(file)])
        log = folder / "server.log"
        with running("Redis", command, log, environment=_environment()) as server:
            server.wait_for(lambda: listens(port))
            worker = [sys.executable, "-P", "-m", f"{__name__}_client"]
            pids = {"redis": server.process.pid}
            yield Server(facts(_version(), policy), {"port": str(port)}, worker, pids)
