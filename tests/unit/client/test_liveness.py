"""When a reader looks whether the store still has its session."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from support.harness import StoreProcess, eventually

from silomq.client.errors import SessionLost, StoreClosed
from silomq.client.liveness import Liveness
from silomq.client.session import Connection

if TYPE_CHECKING:
    from pathlib import Path

LONG_S = 15.0


def patience_ends(liveness: Liveness) -> bool:
    """Whether a reader that sleeps again and again, each time as long as it may, is told."""
    try:
        liveness.patience(LONG_S)
    except StoreClosed:
        return True
    return False


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
        eventually(lambda: patience_ends(member), "the member is told", 2.0)
        with pytest.raises(StoreClosed) as told:
            reader.patience(LONG_S)
        assert not isinstance(told.value, SessionLost)
        with pytest.raises(SessionLost if how == "crash" else StoreClosed):
            member.check()
