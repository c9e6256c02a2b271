"""The folder in which the blocks of the documents run, with a store, as a reader has it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
from support.golden_stores import unpack
from support.small_settings import SHIPPED_LIMITS

from silomq.bench.loopback import free_port
from silomq.shm import segments

if TYPE_CHECKING:
    from e2e.documents.blocks import Block

#: Folders of a machine that lie in the place instead.
_FOLDERS: Final = re.compile(r"(?<![\w.])/(?=(?:var/lib|etc/silomq|home/rocketmq|data)\b)")
#: Ports that a document names: other tests may have them.
_PORTS: Final = (9876, 10911)
#: A measurement takes more than a minute by default. Here it only has to work.
_MEASURES: Final = re.compile(r"^silo bench run .*$", re.MULTILINE)
_BRIEFLY: Final = "--runs 1 --set duration=1s --set warm_up=0.2s"
_ID: Final = re.compile(r"\bC0000202[0-9A-F]{24}\b")
#: Documents that name their stores and the sizes of the files. Other stores get small files.
NAME_SIZES: Final = {"docs/migration.md", "docs/drills.md"}
#: A server runs until it is ended. It must still run after this time (s).
RUNS_ON_S: Final = 2.0


class Place:
    """A folder, and how a block becomes one that runs there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.message_id = ""
        for name in ("var/lib", "etc/silomq", "home/rocketmq", "data"):
            (folder / name).mkdir(parents=True)
        unpack("normal", folder / "home/rocketmq").path.rename(folder / "home/rocketmq/store")

    def fit(self, text: str) -> str:
        """A text of a document with this place's folders, ports and ids, and short measurements."""
        text = _FOLDERS.sub(f"{self.folder}/", text)
        text = text.replace("s3://", f"{self.folder}/s3/").replace(
            "10.0.0.5:9876", "127.0.0.1:9876"
        )
        text = _MEASURES.sub(rf"\g<0> {_BRIEFLY}", text)
        for port in _PORTS:
            text = re.sub(rf"\b{port}\b", str(free_port()), text)
        return _ID.sub(self.message_id, text) if self.message_id else text

    def environment(self, block: Block) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        found = os.environ | {
            "PATH": path,
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "SILOMQ_STORE_PATH": "./store",
        }
        if block.document in NAME_SIZES:
            del found["SILOMQ_STORE_PATH"]
        else:
            found |= {f"SILOMQ_{name.upper()}": str(v) for name, v in SHIPPED_LIMITS.items()}
        return found

    def run(
        self,
        command: list[str],
        block: Block,
        text: str = "",
        wait: float = 100,
        **environment: str,
    ) -> tuple[int, str]:
        """Runs a command to its end, with `text` as its input. Returns its status and its output.
        What it left running is ended.
        """
        with tempfile.TemporaryFile("w+") as said:
            with subprocess.Popen(
                command, cwd=self.folder, env=self.environment(block) | environment, text=True,
                stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process:  # fmt: skip
                try:
                    process.communicate(text, timeout=wait)
                finally:
                    end(process, signal.SIGKILL)
            said.seek(0)
            return process.returncode, said.read()

    def forget_memory(self) -> None:
        """Removes the shared memory of stores that had to be killed."""
        for log in self.folder.rglob("commitlog"):
            segments.remove_all(segments.store_identity(log.parent))

    def run_on(self, block: Block, script: str) -> str:
        """Runs servers for a while, and ends them. Returns what they said. All of them must stop
        by themselves.
        """
        with subprocess.Popen(
            ["bash", "-c", script], cwd=self.folder, env=self.environment(block), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                said, _ = process.communicate(timeout=RUNS_ON_S)
                raise AssertionError(f"{block.place}: a server ended: {said}")
            except subprocess.TimeoutExpired:
                end(process, signal.SIGTERM)
                said, _ = process.communicate(timeout=60)
            finally:
                end(process, signal.SIGKILL)
        return said


def end(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Sends a signal to all processes of the session that a process has begun. A shell with job
    control gives each of its jobs a group of its own, but no session.
    """
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == process.pid:
                os.kill(pid, number)
        except ProcessLookupError:
            continue
