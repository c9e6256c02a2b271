"""RocketMQ's own broker registers with `silo names`, and RocketMQ's own clients find it there."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from interop.brokers import SMALL
from interop.rocketmq import BUILD, JAVA, RELEASES, TIMEOUT_S, require
from interop.servers import real_broker, real_name_server
from support import small_settings
from support.brokers import BrokerProcess
from support.harness import LONG, StoreProcess, eventually
from support.name_servers import name_server
from support.remoting_client import RemotingClient

from silomq.bench.loopback import free_port

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


# The test below has clients of 5.3.3.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("releases", [("4.9.8",), pytest.param(RELEASES, marks=LONG)], ids=" ".join)
def test_rocketmqs_broker_and_clients_meet_by_our_name_server(
    tmp_path: Path, releases: tuple[str, ...]
) -> None:
    for release in (RELEASES[0], *releases):
        require(release)
    with name_server(tmp_path) as server, server.peer() as peer:
        with real_broker(tmp_path / "broker", server.address, SMALL):
            eventually(
                lambda: peer.ask(105, {"topic": "TBW102"}).code == 0, "the broker registers", 90
            )
            for release in releases:
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


def create_topic(broker: str, topic: str) -> None:
    """Makes a topic with two queues at a broker."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false",
    }  # fmt: skip
    with RemotingClient(broker) as client:
        answer = client.ask(17, fields)
    assert answer.code == 0, answer.remark


def count_of(broker: str, topic: str) -> int:
    """How many messages of a topic a broker has."""
    with RemotingClient(broker) as client:
        answers = [client.ask(30, {"topic": topic, "queueId": queue}) for queue in (0, 1)]
    return sum(int(answer.fields["offset"]) for answer in answers)


@pytest.mark.timeout(300)
def test_our_broker_and_rocketmqs_meet_at_rocketmqs_name_server(tmp_path: Path) -> None:
    require(RELEASES[0])
    topic = "at-both"
    base = {**small_settings.SMALL, "store_port": free_port()}
    with (
        real_name_server(tmp_path / "names") as names,
        real_broker(tmp_path / "theirs", names, SMALL) as theirs,
        StoreProcess(tmp_path / "store", base=base) as store,
        BrokerProcess(store.path, f"namesrvAddr={names}", "brokerName=broker-b") as ours,
        RemotingClient(names) as client,
    ):

        def brokers(of: str) -> set[str]:
            answer = client.ask(105, {"topic": of})
            found = json.loads(answer.body) if answer.code == 0 else {"brokerDatas": []}
            return {broker["brokerName"] for broker in found["brokerDatas"]}

        eventually(lambda: brokers("TBW102") == {"broker-a", "broker-b"}, "both register", 90)
        for broker in (theirs.address, ours.address):
            create_topic(broker, topic)
        eventually(lambda: brokers(topic) == {"broker-a", "broker-b"}, "both have it", 40)
        told = run_clients(RELEASES[0], tmp_path, names, topic)
        assert told == [f"sent {COUNT}", f"consumed {COUNT}"]
        counts = count_of(theirs.address, topic), count_of(ours.address, topic)
        assert sum(counts) == COUNT
        assert min(counts) > 0, "messages went to both"
        ours.stop()
        assert brokers(topic) == {"broker-a"}, "it unregisters at once"
