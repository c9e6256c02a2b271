"""What the tests of the broker share: one broker beside the store of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.brokers import BrokerProcess
from support.popping import Popper
from support.remoting_client import RemotingClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.harness import StoreProcess


@pytest.fixture(scope="module")
def broker_settings() -> tuple[str, ...]:
    """The settings of the module's broker, NAME=VALUE: none. A module may say others."""
    return ()


@pytest.fixture(scope="module")
def broker(store: StoreProcess, broker_settings: tuple[str, ...]) -> Iterator[BrokerProcess]:
    """A running broker for all tests of a module, which logs no defect."""
    with BrokerProcess(store.path, *broker_settings, listen="127.0.0.1:0") as found:
        yield found
        assert "defect" not in found.log(), found.log()[-6000:]


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RemotingClient]:
    """A connection to the module's broker."""
    with RemotingClient(broker.address) as connected:
        yield connected


@pytest.fixture
def popper(client: RemotingClient, topic: str) -> Popper:
    """A consumer of a group and a topic of its own."""
    return Popper(client, topic, f"g-{topic}")
