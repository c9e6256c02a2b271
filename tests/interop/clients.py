"""RocketMQ's clients in other languages: the programs in `go`, `node` and `python_client`, and
`ExchangeClient.java`.

Each program takes one request, a JSON object with these members:

- `do`: "send", "transact", "consume", "pull", "poll", "ask" (send requests) or "reply" (to them);
  `names`: the name server's address; `group`.
- `topics`: to consume; messages are sent to the first one.
- `messages`: of each `body`, and if it has them `tags`, `keys`, `properties`, `delay` (a level),
  `shard` (messages of one number go to one queue in their order), and `how` it is sent:
  "async", "oneway", or "batch" (all of these together).
- `filter`: the tags; `properties`: the names of those to tell; `orderly`; `broadcast`; `pop`: the
  broker says how it reads (Java 5).
- `traced`: whether the client (Java's) traces its messages; it ends then as a consumer does.
- `credentials`: access key and secret; without them requests are not signed.
- `refuse`: how often a message is refused; `most`: how often it may come again.
- `queues`: to pull, with the number of messages in each.

A program that does "transact" sends each message in a transaction, and decides as the body says:
"commit", "roll back", or at a check what stands behind "later ". It tells each check as a line
"checked" with the `body`.

It answers with one JSON object a line. A line "sent" has `body`, and if the client tells them
`status`, `id`, `queue` and `offset`. A line "received" has `topic`, `body`, `tags`, `keys`,
`properties`, `queue`, `offset` and `times`. A line "replied" has `body` and `reply`. A line "ready"
says that a consumer has started, and "done" that all went well. Each line has the time in
milliseconds, `at`. A consumer ends when its standard input is closed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from interop.rocketmq import BUILD, JAVA, RELEASES, ROOT, require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HERE = ROOT / "tests" / "interop"
PATIENCE_S = 60.0
#: The clients that `make interop` builds besides Java's, and what it takes.
_TOOLS = {"go": "Go", "node": "Node and npm", "python": "pip"}
JAVA_CLIENTS = tuple(f"java-{release}" for release in RELEASES)
OTHERS = tuple(_TOOLS)
CLIENTS = (*OTHERS, *JAVA_CLIENTS)
_numbers = itertools.count()


def is_built(client: str) -> bool:
    return (BUILD / client.removeprefix("java-") / ".stamp").is_file()


def require_client(client: str) -> None:
    """Skips the test where `make interop` could not build the client; in CI that is a failure."""
    if client in JAVA_CLIENTS:
        require(client.removeprefix("java-"))
    elif not is_built(client):
        why = f"The {client} client is not in {BUILD}: `make interop` builds it ({_TOOLS[client]})"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


def _command(client: str, folder: Path) -> list[str]:
    if client == "go":
        return [str(BUILD / "go" / "client")]
    if client == "node":
        return ["node", str(_HERE / "node" / "client.js")]
    if client == "python":
        return [sys.executable, "-P", str(_HERE / "python_client" / "client.py")]
    place = BUILD / client.removeprefix("java-")
    classes = f"{place}/classes:{place}/lib/*"
    return [*JAVA, f"-Duser.home={folder}", "-cp", classes, "silomq.interop.ExchangeClient"]


class Client:
    """A running program."""

    def __init__(self, client: str, folder: Path, request: dict[str, Any]) -> None:
        self.name = f"{client}-{next(_numbers)}"
        home = folder / self.name
        home.mkdir()
        self._out, self._err = home / "out.jsonl", home / "err"
        self._killed = False
        environment = {
            **os.environ,
            "HOME": str(home),
            "NODE_PATH": str(BUILD / "node" / "node_modules"),
            "PYTHONPATH": str(BUILD / "python"),
        }
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [*_command(client, home), json.dumps(request)],
                stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=home, env=environment,
            )  # fmt: skip

    def told(self, kind: str) -> list[dict[str, Any]]:
        """The lines of one kind so far."""
        text = self._out.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if line["kind"] == kind]

    def received(self) -> list[dict[str, Any]]:
        return self.told("received")

    def wait_for(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """The lines of one kind, once there are so many."""
        deadline = time.monotonic() + PATIENCE_S
        while len(found := self.told(kind)) < count:
            assert self._process.poll() is None or len(self.told(kind)) >= count, self.errors()
            assert time.monotonic() < deadline, (kind, count, found, self.errors())
            time.sleep(0.05)
        return found

    def end(self) -> None:
        """Lets the program end, which must be without an error."""
        if self._killed:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_S) == 0, self.errors()
        assert len(self.told("done")) == 1, self.errors()

    def kill(self) -> None:
        self._killed = True
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def errors(self) -> str:
        return self._err.read_text(encoding="utf-8", errors="replace")[-3000:]


class Clients:
    """Programs against one server; they work in `folder`."""

    def __init__(self, names: str, folder: Path) -> None:
        self.names = names
        self._folder = folder

    @contextlib.contextmanager
    def start(self, client: str, request: dict[str, Any]) -> Iterator[Client]:
        """A program that ends with the block, at the latest."""
        require_client(client)
        running = Client(client, self._folder, {"names": self.names, **request})
        try:
            yield running
            running.end()
        finally:
            running.kill()

    def send(self, client: str, topic: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Sends the messages; what the client told of each, in the same order."""
        request = {"do": "send", "group": "senders", "topics": [topic], "messages": messages}
        with self.start(client, request) as running:
            running.wait_for("done")
        told = {line["body"]: line for line in running.told("sent")}
        assert sorted(told) == sorted(one["body"] for one in messages)
        assert len(running.told("sent")) == len(messages)
        return [told[one["body"]] for one in messages]

    @contextlib.contextmanager
    def consumer(
        self, client: str, group: str, *topics: str, do: str = "consume", **more: Any
    ) -> Iterator[Client]:
        """A consumer that has started."""
        request = {
            "do": do, "group": group, "topics": topics, "filter": "*", "properties": [],
            "orderly": False, "broadcast": False, "refuse": 0, "most": 16, **more,
        }  # fmt: skip
        with self.start(client, request) as running:
            running.wait_for("ready")
            yield running


def settled(consumer: Client, seconds: float = 1.0) -> list[dict[str, Any]]:
    """What the consumer received, once nothing more came for so long."""
    before = -1
    while len(found := consumer.received()) != before:
        before = len(found)
        time.sleep(seconds)
    return found
