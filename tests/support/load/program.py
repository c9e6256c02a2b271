"""One producer process under load, run as a program: `python -m support.load.program ORDER`.

ORDER is an `Order` as JSON. At the end what the producer knows goes to the order's report, with
every error that reached the caller. A StoreClosed is no error where the order says that the store
may go away under the load, also before the producer has come to it.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec
from support.checking.sent import Sent
from support.load.sender import Sender

from silomq import StoreClosed


class Order(msgspec.Struct):
    """What a producer process is to do: `messages` messages, or until the file `stop` exists."""

    store: str
    number: int
    topics: list[str]
    report: str
    kind: str = "short"
    messages: int = 0
    rate: float = 2000.0
    stop: str = ""
    ending: bool = False
    producer: dict[str, Any] = {}


def main() -> None:
    order = msgspec.json.decode(sys.argv[1], type=Order)
    sent = Sent()
    try:
        produce(order, sent)
    except StoreClosed:
        # What was sent one-way may or may not have been appended.
        sent.oneway.clear()
        if not order.ending:
            sent.errors.append(traceback.format_exc())
    except Exception:  # noqa: BLE001 # the test reports it
        sent.errors.append(traceback.format_exc())
    sent.save(Path(order.report))


def produce(order: Order, sent: Sent) -> None:
    """Sends what is ordered, and notes it in `sent`."""
    sender = Sender(
        order.store, order.number, order.topics, kind=order.kind, sent=sent, **order.producer
    )
    if order.messages:
        sender.run_to(order.messages)
    else:
        sender.run_until(Path(order.stop), order.rate)


if __name__ == "__main__":
    main()
