"""RocketMQ's DefaultMessageStore in process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..target import Durability, Facts
from .installed import class_path, missing, peers, rocketmq
from .java_host import hosting
from .rocketmq import durability, store_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..target import Wanted
    from .server import Server

_POOL_FILES = 5
#: RocketMQ maps this many bytes for the index and the queues of a topic at the least, so a pool's
#: direct memory is what it asks for and some more.
_DIRECT = 256 << 20
_PACKAGES = ("java.base/java.nio", "java.base/sun.nio.ch", "java.base/jdk.internal.ref")

_SAID = {
    Durability.PROCESS_MEMORY: "The bytes are in the store's direct memory (transientStorePool).",
    Durability.DISK: "GroupCommitService has flushed the log's file to the disk (SYNC_FLUSH).",
    Durability.SYSTEM_MEMORY: "The record is in the mapped log, not flushed yet (ASYNC_FLUSH).",
}


def facts(release: str, wanted: Wanted) -> Facts:
    """What an acknowledgement means: RocketMQ's `CommitLog` and its flush services."""
    said = _SAID[durability(wanted)]
    return Facts(
        title="RocketMQ's store, in process",
        version=release,
        acknowledged=said,
        durability=durability(wanted),
        send_calls=frozenset({"send", "async", "batch"}),
        read_calls=frozenset({"poll"}),
    )


class RocketMQStore:
    """The store of a release, without its broker. `Wanted.settings` are those of RocketMQ's
    `MessageStoreConfig`.
    """

    def __init__(self, release: str) -> None:
        self._release = release
        self._classes = peers(f"java{release[0]}", "classes")
        self.name = f"rocketmq-store-{release[0]}"

    def missing(self) -> str:
        return missing(
            f"RocketMQ's store {self._release}", self._classes, rocketmq(self._release),
            peers("histogram", "lib"), program="java",
        )  # fmt: skip

    @contextlib.contextmanager
    def start(self, folder: Path, wanted: Wanted) -> Iterator[Server]:
        settings = {
            "storePathRootDir": str(folder / "store"),
            "storePathCommitLog": str(folder / "store" / "commitlog"),
            **store_settings(wanted),
            "transientStorePoolSize": str(_POOL_FILES),
            # Two stores of one machine must not wait for the same port.
            "haListenPort": "0",
            **wanted.settings,
        }
        file = folder / "store.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        pool = int(settings["transientStorePoolSize"]) * wanted.file_size if wanted.pool else 0
        java = [
            f"-XX:MaxDirectMemorySize={pool + _DIRECT}",
            f"-Drocketmq.home.dir={folder}",
            *(word for name in _PACKAGES for word in ("--add-opens", f"{name}=ALL-UNNAMED")),
            "-cp",
            class_path(self._classes, rocketmq(self._release), peers("histogram", "lib")),
        ]
        main = ["silomq.peers.RocketMQStore", str(file), str(wanted.queues), self._release]
        made = facts(self._release, wanted)
        with hosting(made, folder, java, [*main, *wanted.topics]) as server:
            yield server
