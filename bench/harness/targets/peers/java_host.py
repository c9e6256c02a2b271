"""A JVM that hosts a store and its workers' threads.

```
 harness ──stdin/stdout── relay.py ──loopback── thread of the JVM ──call── store
```

A store in process is measured without a network: each worker is a thread of the JVM, and keeps the
protocol on a connection of its own, which carries a line a second. The CPU time of these threads
is the JVM's, so it is counted as the server's, and that of the workers is 0.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..processes import precise, running
from .server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..processes import ServerProcess
    from ..target import Facts

_RELAY = Path(__file__).with_name("relay.py")
#: The heap of a store's JVM. Its files are mapped, or in direct memory, besides.
HEAP = ("-Xms1g", "-Xmx1g")


def options(folder: Path) -> list[str]:
    """Java's options for what it writes by itself: below the folder."""
    return [f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}", "-XX:-UsePerfData"]


@contextlib.contextmanager
def hosting(facts: Facts, folder: Path, java: list[str], main: list[str]) -> Iterator[Server]:
    """Runs the class and words of `main` with Java's options."""
    command = precise(["java", *HEAP, *options(folder), *java, *main])
    with running("the JVM", command, folder / "server.log", pipes=True) as server:
        port = _port(server)
        worker = [sys.executable, "-P", str(_RELAY), str(port)]
        yield Server(facts, {"port": str(port)}, worker, {"jvm": server.process.pid})


def _port(server: ServerProcess) -> int:
    assert server.process.stdout is not None
    line = server.process.stdout.readline()
    if not line.strip().isdigit():
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(1)
        raise server.failure(f"says {line!r}, which is no port")
    return int(line)
