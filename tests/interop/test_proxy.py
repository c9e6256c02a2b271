"""RocketMQ's proxy 5.3.3 in cluster mode before `silo broker`, with RocketMQ's gRPC clients. Before
RocketMQ's own broker the same checks show that they are right.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import pytest
from interop.brokers import Server, rocketmq_server, silomq_server
from interop.proxies import (
    CHECKS,
    Proxy,
    is_built,
    make_topics,
    proxy,
    require_client,
    require_proxy,
)
from interop.servers import parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

pytestmark = pytest.mark.timeout(240)
#: RocketMQ's broker pops with timers only, and recalls when it is told to. Until its op records are
#: written it asks about what was decided, and commits it twice.
_THEIRS = {
    "timerWheelEnable": "true",
    "mappedFileSizeTimerLog": str(1 << 20),
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "transactionOpBatchInterval": "50",
    "waitTimeMillsInSendQueue": "10000",
    "osPageCacheBusyTimeOutMills": "10000",
}
_SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "rocketmq": lambda folder: rocketmq_server(folder, **_THEIRS),
    "silomq": silomq_server,
}


class Served(NamedTuple):
    """A broker, and the proxy before it."""

    broker: Server
    proxy: Proxy


@pytest.fixture(scope="module", params=parameters(_SERVERS))
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    require_proxy()
    folder = tmp_path_factory.mktemp("proxy")
    with _SERVERS[request.param](folder) as broker:
        for client in CHECKS:
            make_topics(broker.broker_address, client)
        with proxy(folder / "proxy", broker.names, "DefaultCluster") as running:
            yield Served(broker, running)


@pytest.fixture(scope="module")
def runs(served: Served) -> Iterator[dict[str, Future[list[str]]]]:
    """What each client prints that was built. All run at the same time, as they wait mostly."""
    with ThreadPoolExecutor() as pool:
        yield {
            client: pool.submit(served.proxy.run, client, *CHECKS[client])
            for client in filter(is_built, CHECKS)
        }


@pytest.mark.parametrize("client", CHECKS)
def test_grpc_clients(runs: dict[str, Future[list[str]]], client: str) -> None:
    """All that they do, at the same time."""
    require_client(client)
    assert passed(runs[client].result()) == set(CHECKS[client])


def test_clients_go_on_at_the_next_broker(served: Served) -> None:
    served.broker.restart()
    assert passed(served.proxy.run("java", "filters")) == {"filters"}


def passed(lines: list[str]) -> set[str]:
    return {line.split()[1] for line in lines if line.startswith("passed ")}
