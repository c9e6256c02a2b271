"""`make demo`: replays a year of real flights through a store, and compares what is read with what
was sent. A part of them goes through a broker, as RocketMQ's clients send. At the end Spark reads
the store, and its figures are compared with those of the flights' CSV.

Half-way one of the store's processes is killed. The store runs in a process of its own
(`silo serve`), and so does the consumer (`silomq.cli.demo.reader`); this process is the producer.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ... import SendFuture
from ...client.admin.admin import Admin
from ...client.consuming.consumer import Consumer
from ...client.producing.producer import Producer
from ...store.errors import StoreError
from ..shared.common import say
from . import network
from . import spark as demo_spark
from .flights import (
    CARRIERS,
    FLIGHTS,
    Event,
    NoData,
    Tally,
    airlines,
    data_folder,
    events,
    topic_of,
)
from .processes import DemoFailed, Reader, Server

_QUEUES = 4
_IN_FLIGHT = 2000
_KILL_S = 10.0
_OVER_THE_NETWORK = 20_000
_VICTIM = "append"


class Replay:
    """Sends events, and tallies those that the store acknowledged."""

    def __init__(self, producer: Producer, admin: Admin) -> None:
        self.producer = producer
        self.admin = admin
        self.open: deque[tuple[SendFuture, Event]] = deque()
        self.tally = Tally()

    def send(self, event: Event) -> None:
        """Sends one event. The flights of one aircraft share a queue, so their order is kept."""
        future = self.producer.send_async(
            event.topic,
            event.body,
            tags=event.tag,
            keys=event.keys,
            shard_key=event.keys.partition(" ")[0],
            born_timestamp=event.departed_ms,
        )
        self.open.append((future, event))
        if len(self.open) >= _IN_FLIGHT:
            self.settle(_IN_FLIGHT // 2)

    def settle(self, most: int) -> None:
        """Waits until at most `most` events are unanswered, and adds the answered ones to the
        tally.
        """
        while len(self.open) > most:
            future, event = self.open.popleft()
            queue_id = future.result().queue_id
            self.tally.add(queue_id, event)

    def kill_one(self, stream: Iterator[Event]) -> float:
        """Kills append while messages are unanswered. Returns the longest wait for an answer, in
        seconds.

        Continues to send, one event at a time, until append's successor runs. Raises DemoFailed.
        """
        while not (before := self.admin.status()["processes"][_VICTIM])["pid"]:
            time.sleep(0.01)  # it is being replaced: 0 would mean this process's whole group
        began = time.monotonic()
        os.kill(before["pid"], signal.SIGKILL)
        self.settle(0)
        stall = time.monotonic() - began
        while self.admin.status()["processes"][_VICTIM]["starts"] == before["starts"]:
            if time.monotonic() - began > _KILL_S:
                raise DemoFailed(f"{_VICTIM} was killed and not replaced within {_KILL_S:g} s")
            event = next(stream, None)
            if event is None:
                time.sleep(0.01)
                continue
            sent = time.monotonic()
            self.send(event)
            self.settle(0)
            stall = max(stall, time.monotonic() - sent)
        return stall


class Result(msgspec.Struct):
    """The results of one run. Times are in seconds."""

    replay: Replay
    read: dict[str, Any]
    send_s: float
    stall_s: float


def latest(store: Path, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """The ends of all queues, where this run's messages will begin."""
    starts = {}
    for topic in topics:
        with Consumer(store, topic, offset="latest") as consumer:
            starts[topic] = consumer.positions()
    return starts


def replay_all(
    producer: Producer, admin: Admin, reader: Reader, stream: Iterator[Event], total: int
) -> Result:
    """Sends everything, kills one process half-way, and waits for the reader. Raises DemoFailed."""
    replay = Replay(producer, admin)
    stall_s = -1.0
    columns = (TextColumn("{task.description:5}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn()) as progress:
        sent_bar = progress.add_task("sent", total=total)
        read_bar = progress.add_task("read", total=total)
        began = time.monotonic()
        for count, event in enumerate(stream):
            replay.send(event)
            if stall_s < 0 and count >= total // 2:
                stall_s = replay.kill_one(stream)
            if count % 1000 == 0:
                progress.update(sent_bar, completed=replay.tally.messages)
                progress.update(read_bar, completed=reader.read)
            if count % 20_000 == 0 and reader.process.poll() is not None:
                raise DemoFailed("the consumer process died")
        replay.settle(0)
        send_s = time.monotonic() - began
        progress.update(sent_bar, completed=replay.tally.messages)
        for count in reader.rest():
            progress.update(read_bar, completed=count)
    if reader.result is None or reader.process.returncode != 0:
        raise DemoFailed(f"the consumer process ended with status {reader.process.returncode}")
    return Result(replay, reader.result, send_s, stall_s)


def compare(result: Result, total: int) -> None:
    """Raises DemoFailed unless all was sent, and each queue returned exactly what was sent to
    it.
    """
    tally = result.replay.tally
    if tally.messages != total:
        raise DemoFailed(f"{tally.messages} messages were acknowledged, not {total}")
    came: dict[str, list[int]] = result.read["queues"]
    for name in sorted(tally.queues.keys() | came.keys()):
        sent, read = tally.queues.get(name, [0, 0]), came.get(name, [0, 0])
        if sent != read:
            raise DemoFailed(
                f"queue {name}: {sent[0]} messages with checksum {sent[1]:08x} went in, "
                f"{read[0]} with {read[1]:08x} came out"
            )


def print_topics(console: Console, result: Result, names: dict[str, str]) -> None:
    """Prints the table by topic."""
    table = Table("topic", "airline")
    for heading in ("queues", "sent", "read", "checksums"):
        table.add_column(heading, justify="right")
    for carrier, name in sorted(names.items()):
        sent, read = (
            {key: value for key, value in queues.items() if key.startswith(f"{topic_of(carrier)}/")}
            for queues in (result.replay.tally.queues, result.read["queues"])
        )
        if sent or read:
            counts = [f"{sum(queue[0] for queue in side.values()):,}" for side in (sent, read)]
            equal = "equal" if sent == read else "differ"
            table.add_row(topic_of(carrier), name, str(len(sent)), *counts, equal)
    console.print(table)


def print_rates(console: Console, result: Result, total: int) -> None:
    """Prints what the demo has shown, and how fast it was."""
    megabytes = result.replay.tally.bytes / 1e6
    read_s = result.read["seconds"]
    stall_ms = result.stall_s * 1e3
    lines = [
        f"{total:,} events, {megabytes:.0f} MB of bodies: what came out is what went in.",
        f"Sent in {result.send_s:.1f} s: {total / result.send_s:,.0f} a second, from CSV to JSON.",
        f"Read meanwhile by another process in {read_s:.1f} s: {total / read_s:,.0f} a second.",
        f"Half-way {_VICTIM} was killed with SIGKILL: answers came again after {stall_ms:.0f} ms,",
        "and nothing was lost or doubled.",
    ]
    for line in lines:
        console.print(line, soft_wrap=True)


def run(console: Console, store: Path, total: int, *, spark: bool) -> None:
    """Runs the whole demo, with `spark` including the part with Spark. Raises DemoFailed,
    StoreError, NoData.
    """
    folder = data_folder()
    names = airlines(folder)
    topics = [topic_of(carrier) for carrier in sorted(names)]
    console.print(f"{total:,} flights from New York in 2013, {CARRIERS} airlines, into {store}")
    with contextlib.ExitStack() as stack:
        began = time.monotonic()
        server = Server(store)
        stack.callback(server.end)
        admin = stack.enter_context(server.connect())
        for topic in topics:
            admin.create_topic(topic, _QUEUES)
        console.print(f"The store runs after {time.monotonic() - began:.2f} s.")
        starts = latest(store, topics)
        reader = Reader(store, starts)
        stack.callback(reader.end)
        producer = stack.enter_context(Producer(store, timeout=_KILL_S))
        stream = events(folder, total)
        result = replay_all(producer, admin, reader, stream, total)
        print_topics(console, result, names)
        compare(result, total)
        print_rates(console, result, total)
        producer.close()
        admin.close()
        network.run(console, store, folder, min(total, _OVER_THE_NETWORK))
        if spark:
            demo_spark.run(console, store, starts, demo_spark.from_csv(folder, total))
        console.print(f"The store stopped cleanly in {server.stop():.2f} s.")
    used = sum(file.stat().st_blocks * 512 for file in store.rglob("*") if file.is_file())
    console.print(f"Its files are in {store} ({used / 1e6:,.0f} MB); remove them when you like.")


def _interrupted(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m silomq.cli.demo", description=__doc__)
    parser.add_argument("--store", type=Path, default=Path("demo-store"), help="folder to use")
    parser.add_argument("--flights", type=int, default=FLIGHTS, help="how many to replay")
    parser.add_argument("--no-spark", action="store_true", help="leave out the end, with Spark")
    options = parser.parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    total = min(max(options.flights, 2), FLIGHTS)
    try:
        run(Console(highlight=False), options.store, total, spark=not options.no_spark)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except (DemoFailed, NoData, StoreError, OSError) as error:
        say(f"demo: {error}")
        return 1
    return 0
