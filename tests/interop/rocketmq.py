"""RocketMQ itself, run on a store folder: the harness in `java/`, and what it prints."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
#: Where `make interop` puts RocketMQ's class path and the harness compiled against it.
BUILD = ROOT / "build" / "interop"
RELEASES = ("5.3.3", "4.9.8")
#: The last release of RocketMQ 4 whose broker was published. There are no programs for it.
BROKER4 = "4.9.7"
TIMEOUT_S = 100.0
FOREVER = 2**63 - 1
#: Our settings under RocketMQ's names.
NAMES = {
    "mapped_file_size_commit_log": "mappedFileSizeCommitLog",
    "mapped_file_size_consume_queue": "mappedFileSizeConsumeQueue",
    "max_hash_slot_num": "maxHashSlotNum",
    "max_index_num": "maxIndexNum",
    "flush_disk_type": "flushDiskType",
}
JAVA = (
    "java",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # it runs for seconds: compiling well would not pay
    # RocketMQ 4.9 unmaps its files through what later JDKs hide.
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)


class Said:
    """The lines that the harness printed."""

    def __init__(self, text: bytes) -> None:
        self._kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in text.splitlines():
            found = msgspec.json.decode(line)
            self._kinds[found["kind"]].append(found)

    def all(self, kind: str) -> list[dict[str, Any]]:
        return self._kinds[kind]

    def one(self, kind: str) -> dict[str, Any]:
        (line,) = self._kinds[kind]
        return line


class RocketMQ:
    """One release, with the settings of the stores it is to open; works in `folder`. `more` are
    further settings of its own, NAME=VALUE.
    """

    def __init__(
        self, release: str, folder: Path, settings: Mapping[str, object], *more: str
    ) -> None:
        self.release = release
        self.folder = folder
        self.settings = [f"{NAMES[name]}={settings[name]}" for name in NAMES if name in settings]
        self.settings += more

    def run(self, store: Path, *commands: object) -> Said:
        """Opens the store and does what the commands say (see Main.java), which must succeed."""
        place = BUILD / self.release
        lines, errors = self.folder / "rocketmq.jsonl", self.folder / "rocketmq.err"
        with lines.open("wb") as out, errors.open("wb") as err:
            done = subprocess.run(
                [
                    *JAVA, f"-Duser.home={self.folder}", f"-Djava.io.tmpdir={self.folder}",
                    "-cp", f"{place}/classes:{place}/lib/*", "silomq.interop.Main",
                    store, *self.settings, *map(str, commands),
                ],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.folder,
                timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        text = lines.read_bytes()
        said = errors.read_text(encoding="utf-8", errors="replace")[-4000:]
        assert done.returncode == 0, f"RocketMQ {self.release}: {text[-1000:]!r}\n{said}"
        return Said(text)


def require(release: str) -> None:
    """Skips the test where `make interop` could not make this release; in CI that is a failure."""
    if (BUILD / release / ".stamp").is_file():
        return
    why = f"RocketMQ {release} is not in {BUILD}: `make interop` fetches it (JDK 17, Maven)"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
