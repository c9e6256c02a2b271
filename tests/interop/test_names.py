"""RocketMQ's own broker registers with `silo names`, and RocketMQ's own clients find it there."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest
from interop.rocketmq import BUILD, JAVA, RELEASES, TIMEOUT_S, require
from support.harness import eventually
from support.name_servers import name_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The only release of which there is a broker to be had.
BROKER = "5.3.3"
COUNT = 20


def free_port() -> int:
    """A port that is free, and the one two below it, which RocketMQ takes too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError):
                second.bind(("127.0.0.1", port - 2))
                return port


@contextlib.contextmanager
def real_broker(folder: Path, names: str) -> Iterator[subprocess.Popen[bytes]]:
    """RocketMQ's broker, which is killed at the end."""
    folder.mkdir()
    settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "listenPort": free_port(),
        "haListenPort": free_port(),
        "namesrvAddr": names,
        "storePathRootDir": folder / "store",
        "mappedFileSizeCommitLog": 1 << 20,
        "maxMessageSize": 1 << 18,
        "mappedFileSizeConsumeQueue": 20_000,
        "timerWheelEnable": "false",
        "diskMaxUsedSpaceRatio": 99,
        "autoCreateTopicEnable": "true",
    }
    file = folder / "broker.conf"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    place = BUILD / BROKER
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *JAVA, f"-Duser.home={folder}", f"-Djava.io.tmpdir={folder}",
                f"-Drocketmq.home.dir={folder}", "-cp", f"{place}/classes:{place}/lib/*",
                "org.apache.rocketmq.broker.BrokerStartup", "-c", str(file),
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=folder,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()


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
        with real_broker(tmp_path / "broker", server.address):
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
