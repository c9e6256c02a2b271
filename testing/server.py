"""`DevServer`: `silo dev` in a process of its own, for tests."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from ..store.errors import StoreError

_ENDS_WITHIN_S: Final = 60.0
_READY: Final = re.compile(r"NAMESRV_ADDR=(\S+)\nSILOMQ_STORE_PATH=(.+)\n")


class DevServer:
    """A broker and its store, from `with` to its end. Log lines go to stderr.

    `settings` are NAME=VALUE as for `silo dev --set`. When this process dies, they end too. Raises
    StoreError if they do not start: the reason is on stderr.
    """

    def __init__(self, *settings: str) -> None:
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        #: HOST:PORT, which any RocketMQ client takes as its name server.
        self.address = ""
        #: The folder of the store, for the clients of this package.
        self.store = Path()

    def __enter__(self) -> Self:
        command = [sys.executable, "-P", "-m", "silomq.cli.main", "dev", "--until-eof"]
        command += ["--listen", "127.0.0.1:0"]
        for setting in self._settings:
            command += ["--set", setting]
        self._process = process = subprocess.Popen(  # noqa: S603 - the words are not a shell's
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C ends the tests first
        )
        assert process.stdout is not None
        found = _READY.fullmatch(process.stdout.readline() + process.stdout.readline())
        if found is None:
            self._end()
            raise StoreError(f"silo dev ended with status {process.returncode}")
        self.address, self.store = found[1], Path(found[2])
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        """Ends it, and waits until it has removed its folder."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.terminate()  # a forked child may hold the other end of its input
        try:
            process.wait(_ENDS_WITHIN_S)
        finally:
            process.kill()
            process.wait()
