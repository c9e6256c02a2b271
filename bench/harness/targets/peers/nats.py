"""NATS JetStream with a file store, by nats-py."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from ....loopback import free_port, listens
from ..processes import precise, running
from ..target import Durability, Facts
from .installed import missing, peers
from .server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..target import Wanted

_CONFIGURATION = """\
listen: "127.0.0.1:{port}"
max_payload: 8MB
jetstream {{
  store_dir: "{folder}/jetstream"
  max_file_store: 1TB
  {sync}
}}
"""


def _program() -> Path:
    return peers("nats", "nats-server")


def _version() -> str:
    said = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"v([\d.]+)", said.stdout)
    return found[1] if found else "unknown"


def facts(version: str, wanted: Wanted) -> Facts:
    """What an answer to a publish means: `sync_interval` in NATS's documents on JetStream."""
    sync = wanted.flush == "sync"
    return Facts(
        title="NATS JetStream, by nats-py",
        version=version,
        acknowledged="The stream's file was synced before the answer (sync_interval: always)."
        if sync
        else "The stream's file was written before the answer, and is synced every two minutes"
        " (sync_interval).",
        durability=Durability.DISK if sync else Durability.SYSTEM_MEMORY,
        send_calls=frozenset({"send", "async"}),
        read_calls=frozenset({"poll"}),
    )


class Nats:
    """One stream has all topics as its subjects. A stream has one order, so queues are not told
    apart.
    """

    name = "nats"

    def missing(self) -> str:
        return missing("NATS", _program(), modules=("nats",))

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[Server]:
        port = free_port()
        sync = "sync_interval: always" if wanted.flush == "sync" else ""
        file = folder / "nats.conf"
        file.write_text(_CONFIGURATION.format(port=port, folder=folder, sync=sync))
        command = precise([str(_program()), "--config", str(file)])
        with running("NATS", command, folder / "server.log") as server:
            server.wait_for(lambda: listens(port))
            worker = [sys.executable, "-P", "-m", f"{__name__}_client"]
            pids = {"nats": server.process.pid}
            yield Server(facts(_version(), wanted), {"port": str(port)}, worker, pids)
