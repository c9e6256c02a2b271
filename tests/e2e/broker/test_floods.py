"""A client that asks for much holds up nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.broker_requests import send_fields
from support.brokers import BrokerProcess
from support.harness import StoreProcess
from support.remoting_client import RemotingClient

from silomq.broker.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHANGES = 400
TOPIC = {
    "topic": "flooded",
    "defaultTopic": "TBW102",
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("floods") / "store"
    with StoreProcess(path), BrokerProcess(path) as running:
        yield running.address


def change(client: RemotingClient, number: int) -> int:
    """Asks for another number of queues, which the registry makes durable. Returns its opaque."""
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    return client.send(code, {**TOPIC, "readQueueNums": 4 + number % 3})


def test_many_changes_by_one_client_let_others_through(broker: str) -> None:
    with RemotingClient(broker) as many, RemotingClient(broker) as other:
        asked = [change(many, number) for number in range(CHANGES)]
        # The registry must be asked for each of these topics. It has served a few changes before.
        for number in range(5):
            answer = other.ask(RequestCode.SEND_MESSAGE, send_fields(f"new-{number}"), b"x")
            assert answer.code == ResponseCode.SUCCESS
        many.listen(0.05)
        assert len(many.answers) < CHANGES / 2, "the others had to wait for the changes"
        for opaque in asked:
            assert many.answer(opaque).code == ResponseCode.SUCCESS


def test_changes_that_wait_end_with_their_connection(broker: str) -> None:
    with RemotingClient(broker) as many:
        for number in range(CHANGES):
            change(many, number)
    with RemotingClient(broker) as next_one:
        asked = [change(next_one, number) for number in range(20)]
        assert {next_one.answer(opaque).code for opaque in asked} == {ResponseCode.SUCCESS}
