"""RocketMQ's own broker registers with `silo names`, and RocketMQ's own clients find it there."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from interop.brokers import SMALL
from interop.rocketmq import BUILD, JAVA, RELEASES, TIMEOUT_S, require
from interop.servers import real_broker
from support.harness import eventually
from support.name_servers import name_server

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 20


def run_clients(release: str, folder: Path, names: str, topic: str) -> list[str]:
    """What RocketMQ's clients print that send and consume by the name server."""
    place = BUILD / release
    done = subprocess.run(
        [
            *JAVA, f"-Duser.home={folder}", "-cp", f"{place}/classes:{place}/lib/*",
            "silomq.interop.Clients", names, topic, str(COUNT),
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, timeout=TIMEOUT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if line.startswith(("sent", "consumed"))]


@pytest.mark.timeout(300)
def test_rocketmqs_broker_and_clients_meet_by_our_name_server(tmp_path: Path) -> None:
    for release in RELEASES:
        require(release)
    with name_server(tmp_path) as server, server.peer() as peer:
        with real_broker(tmp_path / "broker", server.address, SMALL):
            eventually(
                lambda: peer.ask(105, {"topic": "TBW102"}).code == 0, "the broker registers", 90
            )
            for release in RELEASES:
                topic = f"from-{release.replace('.', '-')}"
                told = run_clients(release, tmp_path, server.address, topic)
                assert told == [f"sent {COUNT}", f"consumed {COUNT}"]
                found = json.loads(peer.ask(105, {"topic": topic}).body)
                assert found["queueDatas"][0]["brokerName"] == "broker-a"
            assert "%RETRY%readers" in json.loads(peer.ask(206).body)["topicList"]
            clusters = peer.ask(106).body
            assert b'"clusterAddrTable":{"DefaultCluster":["broker-a"]}' in clusters
        eventually(
            lambda: peer.ask(105, {"topic": "TBW102"}).code == 17, "the killed broker is forgotten"
        )
