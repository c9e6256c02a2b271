"""Numbers in text that came from outside."""

from __future__ import annotations

import pytest

from silomq.conf.digits import number


@pytest.mark.parametrize("text", ["0", "7", "007", "65535", "0" * 9000 + "12"])
def test_digits_are_a_number(text: str) -> None:
    assert number(text, 65535) == int(text[-5:])


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", " 1", "1_0", "65536", "9" * 9000, "²", "٣", "x", "\n1"]
)
def test_any_other_text_is_none(text: str) -> None:
    assert number(text, 65535) is None
