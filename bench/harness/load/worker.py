"""The worker's program, of which each client in Python makes its own (`client.py`)."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ._fates import Fates
from .account import Account
from .bodies import Messages
from .consuming import Consuming
from .numbers import Numbers
from .output import Output
from .producing import Producing
from .protocol import Order, Ready

if TYPE_CHECKING:
    from .client import OpenReader, OpenSender

_TIMER_SLACK_NS = b"1000"


def main(open_sender: OpenSender, open_reader: OpenReader) -> None:
    """Does the order of standard input. What goes wrong is printed to standard error."""
    # The lines have a descriptor of their own, so that nothing that a client prints is among them.
    output = os.dup(1)
    os.dup2(2, 1)
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
    if order.role == "produce":
        _produce(order, Output(output), open_sender)
    else:
        _consume(order, Output(output), open_reader)


def _produce(order: Order, output: Output, open_sender: OpenSender) -> None:
    messages = Messages(order)
    account = Account(output, messages.size_of)
    numbers = Numbers(order) if order.check else None
    fates = Fates(account.publish, account.durable, account.failed, numbers)
    sender, versions = open_sender(order, fates)
    with contextlib.closing(sender):
        start, ends = _await_start(output, versions)
        account.begin(start, ends)
        work = Producing(order, sender, fates, account, start)
        _wait_until(start)
        work.run(messages)
        if numbers is not None:
            numbers.write()
        account.end()


def _consume(order: Order, output: Output, open_reader: OpenReader) -> None:
    reader, versions = open_reader(order)
    numbers = Numbers(order) if order.check else None
    with contextlib.closing(reader):
        start, ends = _await_start(output, versions)
        account = Account(output, lambda _: 0)
        account.begin(start, ends)
        work = Consuming(order, reader, numbers, account, start)
        work.run()
        if numbers is not None:
            numbers.write()
        account.end(work.read_s)


def _await_start(output: Output, versions: dict[str, str]) -> tuple[int, threading.Event]:
    """Says that all is ready. Returns the start, and what tells the end of standard input."""
    output.say(Ready(versions))
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit("the harness has ended before the start")
    ends = threading.Event()

    def watch() -> None:
        while os.read(0, 4096):
            pass
        ends.set()

    threading.Thread(target=watch, daemon=True).start()
    with contextlib.suppress(OSError):  # sleeps are then up to 50 us longer
        Path("/proc/self/timerslack_ns").write_bytes(_TIMER_SLACK_NS)
    gc.collect()
    gc.freeze()  # the messages made ready are no garbage, and need not be looked at
    return int(line), ends


def _wait_until(start: int) -> None:
    while (left := start - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)
