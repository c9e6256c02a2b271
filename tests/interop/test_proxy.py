"""RocketMQ's proxy 5.3.3 in cluster mode before `silo broker`, with RocketMQ's gRPC client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interop.brokers import silomq_server
from interop.proxies import CHECKS, make_topics, proxy, require_proxy

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(240)
def test_grpc_clients(tmp_path: Path) -> None:
    require_proxy()
    with silomq_server(tmp_path) as server:
        make_topics(server.broker_address)
        with proxy(tmp_path / "proxy", server.names, "DefaultCluster") as running:
            lines = running.run()
    passed = {line.split()[1] for line in lines if line.startswith("passed ")}
    assert passed == set(CHECKS)
