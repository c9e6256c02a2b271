"""A store with declared holes, and messages in light queues (LMQ)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.checking.holes import drained
from support.commands import silo
from support.harness import StoreProcess

from silomq import Consumer, CorruptRange, Producer

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 16,
    "max_message_size": 16384,
    "enable_lmq": "true",
    "enable_multi_dispatch": "true",
}


@pytest.mark.parametrize("queues", ["there", "gone"])
def test_light_queues_have_holes_where_their_messages_are_lost(tmp_path: Path, queues: str) -> None:
    """Between two holes and behind them each message keeps its number in each light queue."""
    with StoreProcess(tmp_path / "store", **SETTINGS) as store:
        places = []
        with Producer(store.path) as producer:
            for number in range(90):
                names = ",".join(f"%LMQ%{n}" for n in ("a", "b", "c") if number % (ord(n) - 95))
                properties = {"INNER_MULTI_DISPATCH": names} if names else None
                body = b"%d" % number + b" " * 200
                sent = producer.send("t", body, queue=number % 2, properties=properties)
                places.append(sent.physical_offset)
        served = {name: light_bodies(store.path, name) for name in ("%LMQ%a", "%LMQ%b", "%LMQ%c")}
        store.stop()
        with (store.path / "commitlog" / f"{0:020d}").open("r+b") as file:
            for victim in (31, 59):
                file.seek(places[victim] + 4)
                file.write(b"damaged")
        if queues == "gone":
            shutil.rmtree(store.path / "consumequeue")
        silo("repair", str(store.path), "--holes", "--yes")
        silo("verify", str(store.path))
        store.start()
        store.await_dispatch()
        for name, (bodies, _) in served.items():
            left, raised = light_bodies(store.path, name)
            lost = {n for n, body in bodies.items() if body in (b"31", b"59")}
            assert left == {n: body for n, body in bodies.items() if n not in lost}
            assert [error.queue_offsets for error in raised] == [(n, n + 1) for n in sorted(lost)]


def light_bodies(path: Path, name: str) -> tuple[dict[int, bytes], list[CorruptRange]]:
    with Consumer(path, name) as consumer:
        found, raised = drained(lambda: consumer.poll(100, timeout=0.5))
    return {view.queue_offset: view.body.strip() for view in found}, raised
