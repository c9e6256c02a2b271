"""`silo dev`: ready, used, ended in each way, refused; and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from interop.conformance.requests import bodies, pull, records, send
from support.commands import SILO, sentence, silo
from support.dev_servers import ANY_PORT, DevServer
from support.harness import WAIT_S, eventually, kill_now, lives, memory_of

from silomq import Admin, Consumer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: What is promised. How long a start takes is printed, and is no reason to fail.
PSS_MIB, DISK_MIB = 150, 100


def dev(folder: Path, *more: str) -> DevServer:
    return DevServer(folder, "dev", "--listen", ANY_PORT, *more)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """One for the tests that leave it as it is."""
    with dev(tmp_path_factory.mktemp("dev")) as running:
        yield running


def test_it_is_soon_ready_and_small(server: DevServer, capsys: pytest.CaptureFixture[str]) -> None:
    with server.connect() as client:
        for number in range(500):
            assert send(client, "small", b"x" * 1000, number % 4).code == 0
    pss = sum(_pss(pid) for pid in server.family()) / 2**20
    files = [path.stat() for path in server.store.rglob("*") if path.is_file()]
    disk = sum(512 * about.st_blocks for about in files) / 2**20
    with capsys.disabled():
        print(f"\nready {server.ready_s:.2f} s, PSS {pss:.0f} MiB, disk {disk:.0f} MiB")
    assert pss < PSS_MIB
    assert disk < DISK_MIB


def _pss(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        found = [line for line in file if line.startswith("Pss:")]
    return int(found[0].split()[1]) << 10


def test_a_message_makes_its_topic_and_comes_back(server: DevServer) -> None:
    server.exchange("made-on-use")
    with Admin(server.store) as admin:
        assert "made-on-use" in {topic.topic for topic in admin.topics()}
    with Consumer(server.store, "made-on-use", offset="earliest") as consumer:
        assert [message.body for message in consumer.poll(1, timeout=5.0)] == [b"hello"]


def test_the_store_names_the_address_in_its_records(server: DevServer) -> None:
    with server.connect() as client:
        send(client, "hosts", b"x")
        eventually(lambda: pull(client, "g", "hosts", 0).code == 0, "it is dispatched")
        (record,) = records(pull(client, "g", "hosts", 0))
        route = client.ask(105, {"topic": "hosts", "acceptStandardJsonOnly": "true"})
    assert str(record.store_host) == server.address
    (broker,) = json.loads(route.body)["brokerDatas"]
    assert broker["brokerAddrs"] == {"0": server.address}


def test_a_message_may_have_four_mebibytes(server: DevServer) -> None:
    body = os.urandom(4 << 20)
    with server.connect() as client:
        for _ in range(10):
            answer = send(client, "large", body)
            assert answer.code == 0, answer.remark
        eventually(lambda: bodies(pull(client, "g", "large", 9)) == [body], "the last one comes")
        assert send(client, "large", body + b"x").code == 13


def test_sql_filters_are_on(server: DevServer) -> None:
    with server.connect() as client:
        for number in range(4):
            send(client, "sql", b"%d" % number, properties={"n": str(number)})
        more = {"subscription": "n > 1", "expressionType": "SQL92"}
        eventually(lambda: bodies(pull(client, "g", "sql", 0, **more)) == [b"2", b"3"], "two pass")


def test_traces_have_a_topic(server: DevServer) -> None:
    with server.connect() as client:
        answer = send(client, "RMQ_SYS_TRACE_TOPIC", b"trace")
        assert answer.code == 0, answer.remark
        trace = "RMQ_SYS_TRACE_TOPIC"
        eventually(lambda: bodies(pull(client, "g", trace, 0)) == [b"trace"], "it comes")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with dev(tmp_path) as server:
        server.exchange("t")
        assert server.stop(number) == 0
        assert server.left() == []
        assert server.log() == ""
        assert server.running.stdout is not None
        assert server.running.stdout.read() == ""


def test_a_signal_during_the_start_leaves_nothing_behind(tmp_path: Path) -> None:
    for delay_ms in range(50, 1000, 100):
        server = dev(tmp_path).launch()
        try:
            time.sleep(delay_ms / 1000)
            pids = server.family()
            status = server.stop()
            assert status in (0, -signal.SIGTERM), server.log()
            eventually(lambda gone=pids: not any(map(lives, gone)), "all end")  # type: ignore[misc]
            assert list(server.temporary.iterdir()) == []
        finally:
            server.clean_up()


def test_it_ends_with_its_standard_input(tmp_path: Path) -> None:
    with dev(tmp_path, "--until-eof") as server:
        server.exchange("t")
        assert server.running.stdin is not None
        server.running.stdin.close()
        assert server.wait() == 0
        assert server.left() == []


def test_a_killed_command_takes_all_with_it(tmp_path: Path) -> None:
    with dev(tmp_path) as server:
        server.exchange("t")
        kill_now(server.running.pid)
        server.wait()
        eventually(lambda: server.left() == [], "nothing is left")


def test_a_killed_store_ends_the_command(tmp_path: Path) -> None:
    with dev(tmp_path) as server:
        kill_now(server.pid("supervisor"))
        assert server.wait() == 128 + signal.SIGKILL
        eventually(lambda: server.left() == [], "nothing is left")


def test_a_killed_broker_is_replaced(tmp_path: Path) -> None:
    with dev(tmp_path) as server:
        for _ in range(3):
            server.exchange("t")
            broker = server.pid("broker")
            kill_now(broker)
            eventually(partial(server.runs, "broker", but_not=broker), "another")
            server.exchange("t")  # its connection waits in the socket meanwhile
        assert "broker died, replacing it" in server.log()


@pytest.mark.parametrize("actor", ["append", "registry", "reput"])
def test_a_killed_actor_is_replaced(tmp_path: Path, actor: str) -> None:
    with dev(tmp_path) as server:
        server.exchange("t")
        pid = server.pid(actor)
        kill_now(pid)
        eventually(lambda: server.runs(actor, but_not=pid), "another")
        server.exchange("t")


def test_ctrl_z_halts_all(tmp_path: Path) -> None:
    with dev(tmp_path) as server:
        server.exchange("t")
        store, broker = server.pid("supervisor"), server.pid("broker")
        os.kill(server.running.pid, signal.SIGTSTP)
        for pid in (server.running.pid, store, broker):
            eventually(lambda pid=pid: _state(pid) == "T", "it is stopped")  # type: ignore[misc]
        os.kill(server.running.pid, signal.SIGCONT)
        server.exchange("t")
        assert (store, broker) == (server.pid("supervisor"), server.pid("broker"))


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def test_new_code_would_not_remove_the_store(tmp_path: Path) -> None:
    with dev(tmp_path) as server:
        pids = server.pid("supervisor"), server.pid("append")
        done = silo("reload", "--code", store=server.store, status=1)
        assert "end it and start another one; nothing was changed" in sentence(done)
        assert (server.pid("supervisor"), server.pid("append")) == pids
        server.exchange("t")


def test_a_named_folder_keeps_its_messages(tmp_path: Path) -> None:
    store = tmp_path / "kept"
    with dev(tmp_path, "--store", str(store)) as server:
        assert server.store == store
        server.exchange("t")
    assert memory_of(store) == []
    with dev(tmp_path, "--store", str(store), "--clean-on-exit") as server:
        with server.connect() as client:
            assert bodies(pull(client, "g", "t", 0)) == [b"hello"]
        (store / "notes").write_text("not the store's")
        assert server.stop() == 0
    assert [path.name for path in store.iterdir()] == ["notes"]


def test_a_folder_of_its_own_making_is_removed(tmp_path: Path) -> None:
    store = tmp_path / "made"
    with dev(tmp_path, "--store", str(store), "--clean-on-exit") as server:
        server.exchange("t")
        assert server.stop() == 0
        assert server.left() == []
    assert not store.exists()


def test_settings_go_to_the_store_and_to_the_broker(tmp_path: Path) -> None:
    words = (
        "maxMessageSize=1000", "brokerName=mine", "enablePropertyFilter=false",
        "defaultTopicQueueNums=2",
    )  # fmt: skip
    with dev(tmp_path, *(part for word in words for part in ("--set", word))) as server:
        with server.connect() as client:
            assert send(client, "t", b"x" * 1001).code == 13
            assert send(client, "t", b"x").code == 0
            found = client.ask(105, {"topic": "t", "acceptStandardJsonOnly": "true"})
            route = json.loads(found.body)
            more = {"subscription": "n > 1", "expressionType": "SQL92"}
            assert pull(client, "g", "t", 0, **more).code == 1
        assert route["brokerDatas"][0]["brokerName"] == "mine"
        assert route["queueDatas"][0]["writeQueueNums"] == 2


@pytest.mark.parametrize(
    ("arguments", "status", "parts"),
    [
        (["--set", "enablePropertyFiltre=true"], 3, ("enablePropertyFiltre", "did you mean")),
        (["--set", "xyz=1"], 3, ("xyz", "silo config --template broker")),
        (["--set", "max_topics=many"], 3, ("max_topics", "1 to 1000000")),
        (["--set", "tls.server.mode=enforcing"], 3, ("tls_server_mode", "tls_server_cert_path")),
        (["--set", "nothing"], 3, ("nothing",)),
        (["--listen", "9876"], 2, ("HOST:PORT",)),
        (["--listen", "0.0.0.0:0"], 3, ("0.0.0.0:0", "--open")),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, arguments: list[str], status: int, parts: tuple[str, ...]
) -> None:
    place = [] if arguments[0] == "--listen" else ["--listen", ANY_PORT]
    done = _in(tmp_path, "dev", *place, *arguments)
    assert done.returncode == status
    said = sentence(done)
    assert all(part in said for part in parts), said
    assert list(tmp_path.iterdir()) == []


def _in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs `silo` with this folder for temporary files."""
    return subprocess.run(
        [*SILO, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False,
        timeout=WAIT_S, env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip


def test_a_certificate_that_cannot_be_used_ends_it(tmp_path: Path) -> None:
    pairs = [f"tls.server.{name}Path={tmp_path}/missing.pem" for name in ("cert", "key")]
    sets = [word for pair in pairs for word in ("--set", pair)]
    done = _in(tmp_path, "dev", "--listen", ANY_PORT, *sets)
    assert done.returncode == 1
    assert "missing.pem" in sentence(done)
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = _in(tmp_path, "dev", "--listen", address)
    assert done.returncode == 1
    said = sentence(done)
    assert f"cannot listen on {address}: another process listens there" in said
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with dev(tmp_path, "--store", str(store)) as server:
        server.exchange("t")
        for more in ((), ("--clean-on-exit",)):
            done = silo("dev", "--listen", ANY_PORT, *more, store=store, status=4)
            assert "in use by another process" in sentence(done)
        server.exchange("t")


def test_its_own_folder_is_not_that_of_the_environment(tmp_path: Path) -> None:
    other = tmp_path / "other"
    environ = {**os.environ, "SILOMQ_STORE_PATH": str(other), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*SILO, "dev", "--listen", ANY_PORT], stdout=subprocess.PIPE, text=True, env=environ
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert str(tmp_path / "silomq-dev-") in process.stdout.readline()
        finally:
            process.terminate()
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []
