"""A queue whose first messages are gone: where pulls and new groups begin."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from interop.conformance.points import point
from interop.conformance.requests import (
    Answer,
    Code,
    committed,
    max_offset,
    offset_by,
    pull,
    records,
    send,
)
from support.harness import eventually

if TYPE_CHECKING:
    from interop.servers import Server, Servers

TOPIC = "cleaned"
COUNT = 30
BODY = bytes(120_000)
#: RocketMQ removes nothing in the first minute of a broker.
CLEANED_WITHIN_S = 90.0
#: Files are removed one after the other. Longer than this nothing is in between.
SETTLED_S = 2.0


def fill(server: Server) -> None:
    """Makes a topic whose first messages will be removed, and asks for that."""
    server.create_topic(TOPIC)
    with server.connect() as client:
        for _ in range(COUNT):
            answer = send(client, TOPIC, BODY)
            assert answer.code == Answer.SUCCESS, answer.remark
        eventually(lambda: max_offset(client, TOPIC) == COUNT, "all are dispatched")
    server.clean()


def wait_until_cleaned(server: Server) -> int:
    """The topic's first offset, as soon as the server has removed all that it will remove."""
    began = time.monotonic()
    first, since = 0, began
    with server.connect() as client:
        while first == 0 or time.monotonic() - since < SETTLED_S:
            assert time.monotonic() - began < CLEANED_WITHIN_S, "no old messages are removed"
            time.sleep(0.05)
            found = offset_by(client, Code.GET_MIN_OFFSET, TOPIC)
            if found != first:
                first, since = found, time.monotonic()
    return first


@point(24, late=True)
def a_pull_of_what_is_gone_is_sent_on(servers: Servers) -> None:
    first = wait_until_cleaned(servers.strict)
    assert 0 < first < COUNT
    servers.strict.create_group("cleaned-readers")
    with servers.strict.connect() as client:
        answer = pull(client, "cleaned-readers", TOPIC, 0)
        assert answer.code == Answer.PULL_OFFSET_MOVED
        assert answer.fields["nextBeginOffset"] == str(first)
        assert answer.fields["minOffset"] == str(first)
        found = records(pull(client, "cleaned-readers", TOPIC, first))
        assert found[0].queue_offset == first


@point(30, 33, late=True)
def a_new_group_is_told_that_it_has_no_offset(servers: Servers) -> None:
    wait_until_cleaned(servers.strict)
    servers.strict.create_group("cleaned-new")
    with servers.strict.connect() as client:
        assert committed(client, "cleaned-new", TOPIC) is None
