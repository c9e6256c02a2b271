"""A client that floods the store with decisions about transactions: python decision_flood.py STORE
KIND COUNT QUEUE_OFFSET OFFSET GROUP. It forges whole frames, so it is as fast as a ring allows.

KIND is "nothing" for decisions about halves that do not exist; "named" names the half at these
offsets, for the group. Prints "flooding" once the first are stored, and "done" at the end.
"""

from __future__ import annotations

import os
import random
import sys
import time

from silomq.client.session import Connection
from silomq.shm.protocol.requests import OpenTransaction
from silomq.shm.ring import DATA, Ring, largest_frame
from silomq.store.record.ids import Host
from silomq.store.transactions.decisions import Decision, encode_decision

from .frames import make_frame

_RING = 1 << 20


def _frame(link: Connection, slot: int, decisions: list[Decision]) -> tuple[bytes, int]:
    host = Host.unpack(link.config.store_host)
    records, number = bytearray(), 0
    for one in decisions:
        made = encode_decision(one, born_ms=1, born_host=host, store_host=host, record_crc=False)
        if 64 + len(records) + len(made) > largest_frame(_RING) // 2:
            break
        records += made
        number += 1
    return bytes(make_frame(bytes(records), number, slot)), number


def flood(store: str, named: Decision | None, count: int) -> None:
    """Sends `count` decisions or a few more."""
    rng = random.Random(1)
    link = Connection(store, _RING)
    slot = link.request(OpenTransaction("")).decisions[0]
    frames = []
    for _ in range(16):
        numbers = [rng.randrange(2**62) for _ in range(4000)]
        many = [Decision(True, n, n, "pg", "") if named is None else named for n in numbers]
        frames.append(_frame(link, slot, many))
    assert link.ring is not None
    ring, view = Ring(link.ring, "producer"), memoryview(link.ring)
    head, tail = ring.own("head"), ring.word("tail")
    place = sent = 0
    while sent < count:
        frame, number = frames[sent % len(frames)]
        rest = _RING - place % _RING
        if rest < len(frame):
            view[DATA + place % _RING : DATA + place % _RING + 8] = rest.to_bytes(4, "little") + (
                b"\x02\0\0\0"
            )
            place += rest
        while place + len(frame) - tail.load() > _RING:
            os.eventfd_write(link.bell, 1)
            time.sleep(0.0002)
        at = DATA + place % _RING
        view[at : at + len(frame)] = frame
        place += len(frame)
        head.store(place)
        os.eventfd_write(link.bell, 1)
        if not sent:
            print("flooding", flush=True)
        sent += number
    while tail.load() < place:
        os.eventfd_write(link.bell, 1)
        time.sleep(0.001)
    assert ring.word("closed").load() == 0
    print("done", flush=True)
    link.close()


if __name__ == "__main__":
    store, kind, count, queue_offset, offset, group = sys.argv[1:]
    named = Decision(True, int(queue_offset), int(offset), group, "")
    flood(store, None if kind == "nothing" else named, int(count))
