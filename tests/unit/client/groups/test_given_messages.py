"""What a caller gives a consumer, as the registry gets it."""

from __future__ import annotations

import pytest

from silomq.client.groups.given_messages import invisible_ms
from silomq.store.errors import IllegalArgument


@pytest.mark.parametrize(("seconds", "ms"), [(0.001, 1), (1.001, 1001), (2.3, 2300), (30, 30_000)])
def test_a_lease_has_the_milliseconds_that_were_given(seconds: float, ms: int) -> None:
    """1.001 s times 1000 is a little less than 1001."""
    assert invisible_ms(seconds) == ms


@pytest.mark.parametrize("seconds", [0.0, 0.0009, float("inf")])
def test_a_lease_without_end_or_length_is_refused(seconds: float) -> None:
    with pytest.raises(IllegalArgument):
        invisible_ms(seconds)
