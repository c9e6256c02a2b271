"""`silo request`: sends a request, and prints the reply."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...client.requests.request_producer import RequestProducer
from ...store.names import validate_topic
from ..shared.common import json_option, put_json, store_option
from ..shared.completion import topic_names
from ..shared.outcome import Exit
from ..shared.times import Seconds

_EPILOG = """\b
Examples:
  silo request sums '1 2 3'
  silo request sums '1 2 3' --timeout 30 --json
"""


@click.command(epilog=_EPILOG, short_help="Send a request and print the reply.")
@click.argument("topic", shell_complete=topic_names)
@click.argument("body")
@store_option
@click.option("--tags", metavar="TAG", help="Tag of the request.")
@click.option("--keys", multiple=True, metavar="KEY", help="Key for look-ups; may be repeated.")
@click.option("--queue", type=click.IntRange(min=0), help="Queue to send to.")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the reply.",
)
@json_option
def request(
    *,
    topic: str,
    body: str,
    store: Path,
    tags: str | None,
    keys: tuple[str, ...],
    queue: int | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Send BODY to TOPIC as a request, and print the body of the first reply.

    A consumer of the topic must run that replies: by Producer.reply, or a client of RocketMQ's.
    """
    validate_topic(topic)
    with RequestProducer(store) as producer:
        reply = producer.request(
            topic, body, timeout=timeout, tags=tags, keys=keys or None, queue=queue
        )
        if as_json:
            put_json(
                {
                    "body": reply.body.decode("utf-8", "replace"),
                    "properties": reply.properties,
                    "born_host": str(reply.born_host),
                    "store_timestamp": reply.store_timestamp,
                }
            )
        else:
            sys.stdout.buffer.write(reply.body + b"\n")
    return Exit.OK
