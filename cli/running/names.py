"""`silo names` runs a name server."""

from __future__ import annotations

from pathlib import Path

import click

from .listening import listen_address

_EPILOG = """\b
Examples:
  silo names
  silo names --listen 0.0.0.0:9876 --open --data /var/lib/silomq-names
"""
_NOT_OPEN = (
    "a name server believes whoever connects. Listen on 127.0.0.1, or say --open if only machines "
    "that you trust reach that address"
)


@click.command(epilog=_EPILOG, short_help="Run a name server.")
@click.option(
    "--listen",
    default="127.0.0.1:9876",
    show_default=True,
    metavar="HOST:PORT",
    help="Where brokers and clients connect. IPv6: [HOST]:PORT.",
)
@click.option(
    "--open",
    "is_open",
    is_flag=True,
    help="Allow an address that other machines reach: whoever connects may register brokers.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep the key-value settings in this folder.  [default: in memory]",
)
@click.option(
    "--ordered-topics",
    is_flag=True,
    help="Tell clients the orderTopicConf of topics (RocketMQ's orderMessageEnable).",
)
def names(listen: str, data: Path | None, *, is_open: bool, ordered_topics: bool) -> None:
    """Run a name server until SIGTERM or Ctrl-C.

    It tells RocketMQ's clients which brokers have a topic. Brokers register with it: RocketMQ's own
    (namesrvAddr) as well. Log lines go to stderr.
    """
    from ...conf.logging import configure
    from ...names.server import serve

    address = listen_address(listen, _NOT_OPEN, is_open=is_open)
    configure("names", "names")
    serve(address, folder=data, ordered_topics=ordered_topics)
