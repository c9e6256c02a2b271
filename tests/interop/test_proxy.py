"""RocketMQ's proxy 5.3.3 in cluster mode before `silo broker`, with RocketMQ's gRPC clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from interop.brokers import TRANSACTIONS
from interop.proxies import CHECKS, Proxy, make_topics, proxy, require_client, require_proxy
from support.brokers import BrokerProcess
from support.harness import StoreProcess

from silomq.bench.broker.rocketmq import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(240)


class Served(NamedTuple):
    """A broker, and the proxy before it."""

    broker: BrokerProcess
    proxy: Proxy


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    require_proxy()
    folder = tmp_path_factory.mktemp("proxy")
    store = StoreProcess(
        folder / "store",
        store_port=free_port(),
        mapped_file_size_commit_log=1 << 22,
        max_message_size=1 << 20,
        transaction_timeout_ms=TRANSACTIONS["transactionTimeOut"],
        transaction_check_interval_ms=TRANSACTIONS["transactionCheckInterval"],
    )
    with store, BrokerProcess(store.path, "enablePropertyFilter=true") as broker:
        for client in CHECKS:
            make_topics(broker.address, client)
        with proxy(folder / "proxy", broker.address, "DefaultCluster") as running:
            yield Served(broker, running)


@pytest.mark.parametrize("client", CHECKS)
def test_grpc_clients(served: Served, client: str) -> None:
    """All that they do, at the same time."""
    require_client(client)
    assert passed(served.proxy.run(client, *CHECKS[client])) == set(CHECKS[client])


def test_clients_go_on_at_the_next_broker(served: Served) -> None:
    served.broker.kill()
    served.broker.start()
    assert passed(served.proxy.run("java", "filters")) == {"filters"}


def passed(lines: list[str]) -> set[str]:
    return {line.split()[1] for line in lines if line.startswith("passed ")}
