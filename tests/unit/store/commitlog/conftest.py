"""What the tests of the append kernel share."""

from __future__ import annotations

import pytest
from support.append_rig import Rig


@pytest.fixture(params=[False, True], ids=["mapped", "staged"])
def each_way_of_writing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel stores in the mapped file, then it stages its batches as under SYNC_FLUSH."""
    monkeypatch.setattr(Rig, "staged", request.param)
