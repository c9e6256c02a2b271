"""The demo's consumer process: reads topics until the sender is done and everything is read.

`python -m silomq.cli.demo.reader` takes a JSON line on standard input, {"store": ..., "starts":
{topic: {queue: offset}}}. It answers with JSON lines: several {"read": n}, and last {"queues": ...,
"messages": n, "bytes": n, "seconds": s}. The end of standard input means that all is sent, or that
the sender is dead.
"""

from __future__ import annotations

import json
import select
import sys
import time
from typing import Any

from ...client.admin.admin import Admin
from ...client.consuming.consumer import Consumer
from ...store.errors import StoreError
from ..shared.common import say
from .flights import Event, Tally

_BATCH = 512
_REPORT_S = 0.1
_IDLE_S = 0.005


def _tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def _take(consumers: list[Consumer], tally: Tally) -> bool:
    """Polls each topic once. Returns whether there were any messages."""
    before = tally.messages
    for consumer in consumers:
        for message in consumer.poll(_BATCH):
            event = Event(
                message.topic,
                message.tags or "",
                " ".join(message.keys),
                message.born_timestamp,
                message.body,
            )
            tally.add(message.queue_id, event)
    return tally.messages > before


def _read_all(admin: Admin, consumers: list[Consumer]) -> tuple[Tally, float]:
    tally = Tally()
    began = last = due = time.monotonic()
    while True:
        # The order matters: messages that are dispatched now are found by the next `_take`.
        sent = bool(select.select([sys.stdin], [], [], 0)[0])
        complete = sent and admin.status()["dispatch_behind_bytes"] == 0
        if _take(consumers, tally):
            last = time.monotonic()
        elif complete:
            return tally, last - began
        else:
            time.sleep(_IDLE_S)
        if time.monotonic() >= due:
            due = time.monotonic() + _REPORT_S
            _tell({"read": tally.messages})


def main() -> int:
    """Reads as the line on standard input says. Returns the exit status."""
    task = json.loads(sys.stdin.readline())
    consumers: list[Consumer] = []
    try:
        with Admin(task["store"]) as admin:
            for topic, starts in task["starts"].items():
                offsets = {int(queue): offset for queue, offset in starts.items()}
                consumers.append(Consumer(task["store"], topic, offset=offsets))
            _tell({"read": 0})
            tally, seconds = _read_all(admin, consumers)
        totals = {"messages": tally.messages, "bytes": tally.bytes, "seconds": seconds}
        _tell({"queues": tally.queues, **totals})
    except StoreError as error:
        say(f"the consumer process: {error}")
        return 1
    except BrokenPipeError:
        return 1  # the demo died, and cannot read a message
    except KeyboardInterrupt:
        return 130
    finally:
        for consumer in consumers:
            consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
