"""Pages of long lists."""

from __future__ import annotations

import pytest

from silomq.broker.admin.paging import page_of, version_bean
from silomq.shm.protocol.answers import Version

FOUND = list(range(5000))


@pytest.mark.parametrize(
    ("first", "most", "expected"),
    [
        (None, None, FOUND),
        (None, 3, FOUND),
        (0, 3, [0, 1, 2]),
        (4999, 3, [4999]),
        (5000, 3, []),
        (-7, 2, [0, 1]),
        (1, -2, []),
        (0, None, FOUND[:2000]),
    ],
)
def test_pages(first: int | None, most: int | None, expected: list[int]) -> None:
    assert page_of(FOUND, first, most) == expected


def test_a_version_has_rocketmqs_names() -> None:
    assert version_bean(Version(3, 1, 2)) == {"counter": 3, "stateVersion": 1, "timestamp": 2}
