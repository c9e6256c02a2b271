"""Properties of requests and replies, and the queue of a reply."""

from __future__ import annotations

import pytest

from silomq.store.record import requests
from silomq.store.record.requests import LOCAL, REPLY_QUEUES, reply_properties, reply_queue, ttl_ms


def test_a_reply_has_what_leads_to_its_request() -> None:
    asked = {
        "CORRELATION_ID": "c",
        "REPLY_TO_CLIENT": "who",
        "TTL": "3000",
        "CLUSTER": "x",
        "a": "b",
    }
    assert reply_properties(asked) == {
        "MSG_TYPE": "reply", "CORRELATION_ID": "c", "REPLY_TO_CLIENT": "who", "TTL": "3000",
    }  # fmt: skip
    del asked["TTL"]
    assert reply_properties(asked) == {
        "MSG_TYPE": "reply", "CORRELATION_ID": "c", "REPLY_TO_CLIENT": "who",
    }  # fmt: skip


@pytest.mark.parametrize("lacks", ["CORRELATION_ID", "REPLY_TO_CLIENT"])
def test_other_messages_are_no_requests(lacks: str) -> None:
    asked = {"CORRELATION_ID": "c", "REPLY_TO_CLIENT": "who"}
    assert reply_properties({**asked, lacks: ""}) is None
    del asked[lacks]
    assert reply_properties(asked) is None


def test_each_local_client_has_one_of_all_queues_but_that_of_the_network() -> None:
    found = {reply_queue(f"{LOCAL}{i}", REPLY_QUEUES) for i in range(200)}
    assert found == set(range(REPLY_QUEUES)) - {requests.NETWORK_QUEUE}
    assert reply_queue(f"{LOCAL}7", REPLY_QUEUES) == reply_queue(f"{LOCAL}7", REPLY_QUEUES)
    assert reply_queue("10.0.0.1@1234#5", REPLY_QUEUES) == requests.NETWORK_QUEUE
    assert reply_queue(f"{LOCAL}7", 1) == requests.NETWORK_QUEUE
    assert 0 < reply_queue(f"{LOCAL}\udc80", REPLY_QUEUES) < REPLY_QUEUES


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3000", 3000), ("0", 0), ("", 0), ("-1", 0), ("1.5", 0), ("\u0663", 0),
        ("9" * 18, requests.MOST_TTL_MS), ("9" * 5000, 0),
    ],
)  # fmt: skip
def test_how_long_a_requester_waits(text: str, wanted: int) -> None:
    assert ttl_ms({"TTL": text}) == wanted
    assert ttl_ms({}) == 0
