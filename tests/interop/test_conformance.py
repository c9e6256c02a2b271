"""What clients of RocketMQ may expect of a broker, checked on the wire and with its own clients.

Each check names the points that it holds: numbers of a list of observable behaviours. It runs on
each kind of server in `servers.KINDS`.
"""

from __future__ import annotations

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
)
from interop.conformance.points import CHECKS
from interop.servers import KINDS
from support.harness import LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interop.conformance.points import Check
    from interop.servers import Servers

#: The modules whose checks run.
MODULES = (
    frames, naming, sending, pulling, groups, send_back, lookups, languages, cleaned,
)  # fmt: skip
SLOW = [*LONG, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=KINDS)
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """The servers of one kind, which all checks share."""
    with KINDS[request.param](tmp_path_factory.mktemp("servers")) as running:
        yield running


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


@pytest.mark.parametrize("check", _parameters(late=True))
def test_on_the_wire_after_a_minute(servers: Servers, check: Check) -> None:
    check.run(servers)
