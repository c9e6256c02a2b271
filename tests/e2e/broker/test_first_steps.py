"""What a consumer of a new group asks before its first heart-beat."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.brokers import BrokerProcess
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from support.harness import StoreProcess

ROUTE, NOT_THERE = 105, 17


def test_a_new_group_has_a_retry_topic_at_once(client: RemotingClient) -> None:
    """Its client asks for the route when it starts, and then not for 30 s."""
    answer = client.ask(ROUTE, {"topic": "%RETRY%fresh"})
    assert answer.code == 0, answer.remark
    (queues,) = json.loads(answer.body)["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (1, 1, 6)


def test_names_of_no_group_have_no_route(client: RemotingClient) -> None:
    for name in ("", "a b", "../x", "x" * 300, "gr\u00fcn"):
        answer = client.ask(ROUTE, {"topic": f"%RETRY%{name}"})
        assert answer.code == NOT_THERE, (name, answer)
    assert client.ask(ROUTE, {"topic": "%DLQ%fresh"}).code == NOT_THERE


def test_groups_that_are_not_made_on_use(store: StoreProcess) -> None:
    with (
        BrokerProcess(
            store.path, "autoCreateSubscriptionGroup=false", listen="127.0.0.1:0"
        ) as broker,
        RemotingClient(broker.address) as client,
    ):
        assert client.ask(ROUTE, {"topic": "%RETRY%unknown"}).code == NOT_THERE
