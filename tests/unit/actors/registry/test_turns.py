"""Fair turns among the connections that have sent requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from silomq.actors.registry.turns import Turns

if TYPE_CHECKING:
    import pytest


class Connection:
    """A connection of a user."""

    def __init__(self, uid: int, fd: int) -> None:
        self.uid = uid
        self.fd = fd

    def fileno(self) -> int:
        return self.fd


def of(uid: int, count: int) -> list[Connection]:
    return [Connection(uid, 1000 * uid + i) for i in range(count)]


def make() -> Turns:
    return Turns(lambda connection: cast("Connection", connection).uid)


def serve(fair: Turns, ready: list[Connection]) -> list[Connection]:
    return cast("list[Connection]", list(fair.order(ready)))  # type: ignore[arg-type]


def test_a_user_with_one_request_is_second_among_a_thousand() -> None:
    served = serve(make(), [*of(1, 1000), *of(2, 1)])
    assert [connection.uid for connection in served[:3]] in ([1, 2, 1], [2, 1, 1])
    assert len(served) == 65


def test_connections_of_a_user_follow_in_the_order_of_their_last_turn() -> None:
    fair, ready = make(), of(1, 150)
    served = [connection for _ in range(3) for connection in serve(fair, ready)]
    assert served[:150] == ready
    assert served[150:] == ready[: len(served) - 150]


def test_a_turn_ends_for_a_user_whose_requests_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    seen = []
    for connection in make().order([*of(1, 50), *of(2, 50)]):  # type: ignore[list-item]
        uid = cast("Connection", connection).uid
        seen.append(uid)
        now += 9_000_000 if uid == 1 else 1000
    assert seen.count(1) == 3  # 20 ms are over within the third
    assert seen.count(2) == 50


def test_a_connection_that_was_closed_meanwhile_is_left_out() -> None:
    fair, ready = make(), of(1, 3)
    served: list[Any] = []
    for connection in fair.order(ready):  # type: ignore[arg-type]
        served.append(connection)
        ready[1].fd = -1
    assert served == [ready[0], ready[2]]
