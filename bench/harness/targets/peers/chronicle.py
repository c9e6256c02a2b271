"""Chronicle Queue in process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..target import Durability, Facts
from .installed import class_path, missing, peers
from .java_host import hosting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..target import Wanted
    from .server import Server

RELEASE = "2026.4"
#: What Chronicle's documents name for Java 17.
_EXPORTS = (
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
)
_OPENS = (
    "jdk.compiler/com.sun.tools.javac",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.util",
)


def facts(wanted: Wanted) -> Facts:
    """What an acknowledgement means: an append returns when the excerpt is in the mapped file."""
    sync = wanted.flush == "sync"
    return Facts(
        title="Chronicle Queue, in process",
        version=RELEASE,
        acknowledged="The appender has flushed the mapped file by msync."
        if sync
        else "The excerpt is in the mapped file, which the kernel writes when it likes.",
        durability=Durability.DISK if sync else Durability.SYSTEM_MEMORY,
        send_calls=frozenset({"send", "batch"}),
        read_calls=frozenset({"poll"}),
    )


class Chronicle:
    """Each queue of each topic is a Chronicle queue of its own, with the shipped settings."""

    name = "chronicle"

    def missing(self) -> str:
        return missing(
            "Chronicle Queue", peers("chronicle", "classes"), peers("chronicle", "lib"),
            peers("histogram", "lib"), program="java",
        )  # fmt: skip

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[Server]:
        parts = peers("chronicle", "classes"), peers("chronicle", "lib"), peers("histogram", "lib")
        java = [
            *(word for name in _EXPORTS for word in ("--add-exports", f"{name}=ALL-UNNAMED")),
            *(word for name in _OPENS for word in ("--add-opens", f"{name}=ALL-UNNAMED")),
            "-Dchronicle.analytics.disable=true",  # it would tell its makers of each start
            "-Dchronicle.disk.monitor.disable=true",
            "-cp",
            class_path(*parts),
        ]
        main = ["silomq.peers.ChronicleStore", str(folder / "queues"), str(wanted.queues)]
        main += [wanted.flush, RELEASE, *wanted.topics]
        with hosting(facts(wanted), folder, java, main) as server:
            yield server
