"""A client that says to which of several proxies each of its requests goes: `proxy_python/talk.py`.

Each request is a JSON object in a line, with `do`, `proxy` (HOST:PORT) and `client` (its id):

- "join": begins a session, with `topics`, and with `group` that of a consumer. With `credentials`
  (access key and secret) its requests are signed.
- "send": `topic`, `body`, and the `kind` of message ("TRANSACTION") if it is not a normal one.
- "receive": `topic`, `group`, `invisible_s`, and a `broker`'s name if only one is asked.
- "ack", "hide": `topic`, `group`, and the message's `id` and `receipt`; "hide" has `invisible_s`.
- "end": `topic`, `id` and `transaction`, whether to `commit`, and whether the client was `asked`.
- "leave": ends the session of a producer.
- "asked": waits up to `wait_s` until the client is asked about a transaction.

The answer is a JSON object with `code`, RocketMQ's name of the status or that of gRPC, and `why`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from interop.rocketmq import BUILD, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Talk:
    """The program. One thread at a time may use it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._errors = folder / f"{name}.err"
        command = [sys.executable, "-P", str(ROOT / "tests/interop/proxy_python/talk.py")]
        environment = {**os.environ, "PYTHONPATH": str(BUILD / "proxy-python"), "HOME": str(folder)}
        with self._errors.open("wb") as err:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, cwd=folder,
                env=environment,
            )  # fmt: skip

    def ask(self, do: str, proxy: str, client: str, **more: object) -> dict[str, Any]:
        """The answer to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"do": do, "proxy": proxy, "client": client, **more}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"it ended at {request}: {self._errors.read_text()[-3000:]}"
        found: dict[str, Any] = json.loads(line)
        return found

    def take(
        self, proxy: str, client: str, topic: str, *, rounds: int = 6, invisible_s: int = 30
    ) -> list[dict[str, Any]]:
        """The messages of the first receive that finds some; its group has the topic's name."""
        for _ in range(rounds):
            found = self.ask(
                "receive", proxy, client, topic=topic, group=topic, invisible_s=invisible_s
            )
            assert found["code"] in {"OK", "MESSAGE_NOT_FOUND"}, found
            if found["messages"]:
                messages: list[dict[str, Any]] = found["messages"]
                return messages
        return []

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.contextmanager
def talk(folder: Path, name: str) -> Iterator[Talk]:
    """A client that ends with the block."""
    found = Talk(folder, name)
    try:
        yield found
    finally:
        found.end()
