"""When a reader looks whether the store still has its session."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from support.harness import StoreProcess

from silomq.client.errors import SessionLost, StoreClosed
from silomq.client.liveness import Liveness
from silomq.client.session import Connection

if TYPE_CHECKING:
    from pathlib import Path

LONG_S = 15.0


def sleep_often(member: Liveness) -> None:
    """Sleeps for two seconds, as a member that is woken again and again."""
    for _ in range(100):
        time.sleep(member.patience(0.02))


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_a_short_sleep_follows_a_look_and_the_next_look_tells(tmp_path: Path, how: str) -> None:
    with (
        StoreProcess(tmp_path / "store") as store,
        contextlib.closing(Connection(store.path, client="GroupConsumer")) as link,
    ):
        member, reader = Liveness(link, "the group has lost this member"), Liveness(link)
        assert member.patience(LONG_S) == LONG_S
        assert member.patience(LONG_S) < 0.1
        assert member.patience(0.01) == 0.01
        getattr(store, how)()
        with pytest.raises(SessionLost if how == "crash" else StoreClosed):
            sleep_often(member)
        with pytest.raises(StoreClosed) as told:
            reader.patience(LONG_S)
        assert not isinstance(told.value, SessionLost)
