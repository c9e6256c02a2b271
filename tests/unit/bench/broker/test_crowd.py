"""How many connections a process may have."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from silomq.bench.broker.crowd import room_for

if TYPE_CHECKING:
    import pytest


def test_a_crowd_fits_into_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 4096))
    raised: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    assert (room_for(10_000), room_for(1000)) == (3596, 1000)
    assert raised[0] == (4096, 4096)
