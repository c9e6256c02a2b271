"""What clients of RocketMQ may expect of a broker, checked on the wire and with its own clients.

Each check names the points that it holds: numbers of a list of observable behaviours. It runs on
each kind of server in `servers.KINDS`. The checks of RocketMQ's clients run behind those on the
wire, while these wait for what a broker does in its second minute.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import pytest
from interop.conformance import (
    cleaned,
    frames,
    groups,
    languages,
    lookups,
    naming,
    pulling,
    send_back,
    sending,
    transactions,
)
from interop.conformance.points import CHECKS
from interop.conformance.requests import commit, committed, pull, records
from interop.java_clients import JavaClients, java_clients
from interop.rocketmq import RELEASES, require
from interop.servers import KINDS, parameters
from support.harness import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interop.conformance.points import Check
    from interop.servers import Servers

#: The modules whose checks run.
MODULES = (
    frames, naming, sending, pulling, groups, send_back, lookups, languages, cleaned,
    transactions,
)  # fmt: skip
SLOW = [*LONG, pytest.mark.timeout(300)]
#: The points that RocketMQ's clients check, besides those on a cleaned topic and the restart.
POINTS = {
    *(10, 11, 13, 16, 17, 19, 21, 23, 24, 26, 27, 28, 30, 31, 32, 34, 37, 38, 39, 40, 41, 42, 43),
    *(44, 45, 46, 48, 49, 50),
}
#: What a client stores that compresses by zlib: bits of sysFlag.
ZLIB = 0x301


@pytest.fixture(scope="module", params=parameters(KINDS))
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """The servers of one kind, which all checks share."""
    with KINDS[request.param](tmp_path_factory.mktemp("servers")) as running:
        cleaned.fill(running.strict)
        running.strict.create_topic("known")
        yield running


@pytest.fixture(scope="module")
def clients(
    servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[JavaClients]]:
    """RocketMQ's clients, all releases at the same time."""
    for release in RELEASES:
        require(release)
    folder = tmp_path_factory.mktemp("clients")
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(java_clients(release, folder / release, servers))
            for release in RELEASES
        ]


def _parameters(*, late: bool) -> list[object]:
    return [
        pytest.param(check, id=check.name, marks=SLOW if check.is_slow else ())
        for check in CHECKS
        if check.is_late == late
    ]


def test_every_module_has_checks() -> None:
    assert {check.run.__module__ for check in CHECKS} == {module.__name__ for module in MODULES}


@pytest.mark.parametrize("check", _parameters(late=False))
def test_on_the_wire(servers: Servers, check: Check) -> None:
    check.run(servers)


@pytest.mark.timeout(300)
def test_rocketmqs_clients(servers: Servers, clients: list[JavaClients]) -> None:
    for one in clients:
        one.tell("checks")
    for one in clients:
        one.wait_for("done checks")
        print(one.release, *one.results(), sep="\n")
    for one in clients:
        assert one.results("FAILED") == [], one.release
        points = {int(n) for line in one.results("ok") for n in re.findall(r"\d+", line.split()[0])}
        assert points == POINTS


def test_what_rocketmqs_clients_left(servers: Servers, clients: list[JavaClients]) -> None:
    with servers.open.connect() as client:
        for one in clients:
            topic, group = one.name("broadcast-broadcast"), one.name("broadcast-broadcast")
            assert committed(client, group, topic) in {None, 0}, "who broadcasts commits nothing"
            (record,) = records(pull(client, "looking", one.name("long-long"), 0))
            assert record.sys_flag & 0x701 == ZLIB


@pytest.mark.parametrize("check", _parameters(late=True))
def test_on_the_wire_after_a_minute(servers: Servers, check: Check) -> None:
    check.run(servers)


@pytest.mark.timeout(300)
def test_rocketmqs_clients_on_a_cleaned_topic_and_across_a_restart(
    servers: Servers, clients: list[JavaClients]
) -> None:
    """The topic is on the server that is not restarted."""
    cleaned.wait_until_cleaned(servers.strict)
    for one in clients:
        for group in ("first", "timestamp", "last", "gone"):
            servers.strict.create_group(one.name(f"cleaned-{group}"))
        with servers.strict.connect() as client:
            assert commit(client, one.name("cleaned-gone"), cleaned.TOPIC, 0) == 0
        one.tell("restart")
        one.tell("cleaned")
    for one in clients:
        one.wait_for("restarting")
    servers.open.restart()
    for one in clients:
        one.tell("restarted")
    for one in clients:
        one.wait_for("done cleaned")
        one.wait_for("done restart")
        print(one.release, *one.results(), sep="\n")
        late = [line for line in one.results() if "cleaned" in line or "restart" in line]
        assert [line for line in late if "FAILED" in line.split()] == [], one.release
        assert len(late) == 5
