"""The demo's part over the network: flights go through `silo broker`, as RocketMQ's clients send
them, and are read back from the store.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from rich.console import Console

from ...broker.wire.codes import RequestCode, ResponseCode
from ...broker.wire.command import Command, decode
from ...broker.wire.frames import FrameReader
from ...client.admin.admin import Admin
from ...client.consuming.consumer import Consumer
from .flights import Event, events
from .processes import DemoFailed

_TOPIC: Final = "network_flights"
_QUEUES: Final = 4
_WINDOW: Final = 200
_START_S: Final = 15.0
_ANSWER_S: Final = 10.0
_RECEIVE: Final = 1 << 16


class _Broker:
    """A `silo broker` process on a free port."""

    def __init__(self, store: Path) -> None:
        self.log = store / "silo-broker.log"
        command = [sys.executable, "-P", "-m", "silomq.cli.main", "broker", "--store", str(store)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                [*command, "--listen", "127.0.0.1:0"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def address(self) -> tuple[str, int]:
        """Where it listens, once it does. Raises DemoFailed."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if '"broker running"' in line:
                    host, _, port = json.loads(line)["address"].rpartition(":")
                    return host, int(port)
            time.sleep(0.02)
        raise DemoFailed(f"the broker does not run: {self.log.read_text()[-500:]}")

    def end(self) -> None:
        """Ends it after any outcome."""
        self.process.terminate()
        try:
            self.process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class _Sender:
    """A connection to the broker that sends messages and counts their answers."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, _ANSWER_S)
        self._frames = FrameReader()
        self._sent = self._answered = 0

    def send(self, event: Event, queue_id: int) -> None:
        """Sends an event, and waits while too many are unanswered. Raises DemoFailed, OSError."""
        pairs = {"TAGS": event.tag, "KEYS": event.keys}
        fields = {
            "a": "demo",
            "b": _TOPIC,
            "c": "TBW102",
            "d": str(_QUEUES),
            "e": str(queue_id),
            "f": "0",
            "g": str(event.departed_ms),
            "h": "0",
            "i": "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()),
        }
        self._sent += 1
        request = Command(RequestCode.SEND_MESSAGE_V2, fields, event.body, self._sent)
        self._socket.sendall(request.encode())
        self.settle(_WINDOW)

    def settle(self, most: int) -> None:
        """Waits until at most `most` messages are unanswered. Raises DemoFailed, OSError."""
        while self._sent - self._answered > most:
            while (frame := self._frames.take()) is not None:
                answer = decode(frame)
                if answer.code != ResponseCode.SUCCESS:
                    raise DemoFailed(f"the broker answers {answer.code}: {answer.remark}")
                self._answered += 1
            if self._sent - self._answered > most:
                data = self._socket.recv(_RECEIVE)
                if not data:
                    raise DemoFailed("the broker closed the connection")
                self._frames.feed(data)

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()


def run(console: Console, store: Path, data: Path, total: int) -> None:
    """Sends flights through a broker and compares what the store has then. Raises DemoFailed."""
    with Admin(store) as admin:
        admin.create_topic(_TOPIC, _QUEUES)
    with Consumer(store, _TOPIC, offset="latest") as consumer:
        broker = _Broker(store)
        try:
            sent, took = _send(broker.address(), data, total)
        finally:
            broker.end()
        if _read(consumer, total) != sent:
            raise DemoFailed("what came through the broker is not what went in")
    console.print(
        f"{total:,} flights went through silo broker as RocketMQ's clients send them, "
        f"{total / took:,.0f} a second, and are in the store.",
        soft_wrap=True,
    )


def _send(address: tuple[str, int], data: Path, total: int) -> tuple[list[list[bytes]], float]:
    """The bodies that were sent, by queue, and how long that took, in seconds."""
    sent: list[list[bytes]] = [[] for _ in range(_QUEUES)]
    sender = _Sender(address)
    try:
        began = time.monotonic()
        for number, event in enumerate(events(data, total)):
            queue_id = number % _QUEUES
            sender.send(event, queue_id)
            sent[queue_id].append(event.body)
        sender.settle(0)
        return sent, time.monotonic() - began
    finally:
        sender.close()


def _read(consumer: Consumer, count: int) -> list[list[bytes]]:
    """The bodies of the next `count` messages, by queue. Raises DemoFailed."""
    found: list[list[bytes]] = [[] for _ in range(_QUEUES)]
    deadline = time.monotonic() + _ANSWER_S
    while sum(map(len, found)) < count:
        if time.monotonic() > deadline:
            raise DemoFailed(f"{sum(map(len, found))} of {count} messages came back")
        for message in consumer.poll(timeout=0.1):
            found[message.queue_id].append(message.body)
    return found
