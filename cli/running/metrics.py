"""`silo metrics`: a store's figures in Prometheus' text format."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shared.common import put_text, say, store_option
from ..shared.outcome import Exit

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ...monitor.server import Address

_EPILOG = """\b
Examples:
  silo metrics
  silo metrics --listen 127.0.0.1:9876
  silo metrics --listen unix:/run/silomq/metrics.sock
  silo metrics --dashboard > silomq.json          # for Grafana
"""


@click.command(epilog=_EPILOG, short_help="Print figures for Prometheus, or serve them.")
@store_option
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Serve /metrics at HOST:PORT (a loopback address) or unix:PATH until SIGTERM.",
)
@click.option(
    "--most-topics",
    type=click.IntRange(0, 100_000),
    default=200,
    show_default=True,
    help="Topics with rows of their own; the others are summed.",
)
@click.option(
    "--most-groups",
    type=click.IntRange(0, 100_000),
    default=200,
    show_default=True,
    help="Consumer groups with rows of their own; the others are summed.",
)
@click.option(
    "--rocketmq-names",
    is_flag=True,
    help="Also give the values under the names of RocketMQ's exporter.",
)
@click.option("--dashboard", is_flag=True, help="Print a dashboard for Grafana instead.")
def metrics(
    store: Path,
    listen: str | None,
    most_topics: int,
    most_groups: int,
    *,
    rocketmq_names: bool,
    dashboard: bool,
) -> int:
    """Print the figures of a running store in Prometheus' text format, once.

    With --listen they are served instead. The store may then stop and come again: the figure
    silomq_up tells whether it runs.
    """
    if dashboard:
        put_text((files("silomq.monitor") / "grafana.json").read_text(encoding="utf-8").rstrip())
        return Exit.OK
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest

    from ...monitor.families import StoreCollector
    from ...monitor.server import parse_address

    address = None if listen is None else parse_address(listen)
    collector = StoreCollector(
        str(store),
        most_topics=most_topics,
        most_groups=most_groups,
        rocketmq_names=rocketmq_names,
    )
    registry = CollectorRegistry(auto_describe=False)
    try:
        if address is None:
            list(collector.families())  # a store that is not there is an error here
            registry.register(collector)
            sys.stdout.buffer.write(generate_latest(registry))
            return Exit.OK
        registry.register(collector)
        return _serve(address, registry)
    finally:
        collector.close()


def _serve(address: Address, registry: CollectorRegistry) -> int:
    """Serves until SIGTERM or SIGINT."""
    from ...monitor import server

    try:
        serving = server.listen(address, registry)
    except OSError as error:
        where = address.path or f"{address.host}:{address.port}"
        say(f"silo: cannot listen at {where}: {error.strerror}; give another --listen")
        return Exit.FAILED
    with serving:
        for number in (signal.SIGTERM, signal.SIGINT):
            # `shutdown` waits for the loop, which runs in the thread that gets the signal.
            signal.signal(
                number, lambda *_: threading.Thread(target=serving.shutdown, daemon=True).start()
            )
        say(f"silo: serving metrics at {server.shown(serving)}")
        serving.serve_forever()
    if address.path:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address.path)
    return Exit.OK
