"""RocketMQ's proxy 5.3.3 in cluster mode before `silo broker`, with RocketMQ's gRPC client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interop.brokers import TRANSACTIONS
from interop.proxies import CHECKS, make_topics, proxy, require_proxy
from support.brokers import BrokerProcess
from support.harness import StoreProcess

from silomq.bench.broker.rocketmq import free_port

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(240)
def test_grpc_clients(tmp_path: Path) -> None:
    """All that they do, at the same time; and some of it at the next broker, after a kill."""
    require_proxy()
    store = StoreProcess(
        tmp_path / "store",
        store_port=free_port(),
        mapped_file_size_commit_log=1 << 22,
        max_message_size=1 << 20,
        transaction_timeout_ms=TRANSACTIONS["transactionTimeOut"],
        transaction_check_interval_ms=TRANSACTIONS["transactionCheckInterval"],
    )
    with store, BrokerProcess(store.path, "enablePropertyFilter=true") as broker:
        make_topics(broker.address)
        with proxy(tmp_path / "proxy", broker.address, "DefaultCluster") as running:
            assert passed(running.run()) == set(CHECKS)
            broker.kill()
            broker.start()
            assert passed(running.run("filters")) == {"filters"}


def passed(lines: list[str]) -> set[str]:
    return {line.split()[1] for line in lines if line.startswith("passed ")}
