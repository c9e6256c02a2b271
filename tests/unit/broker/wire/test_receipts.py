"""Receipts of popped messages: RocketMQ's text, and nothing else."""

from __future__ import annotations

import pytest

from silomq.broker.wire.headers import BadHeader
from silomq.broker.wire.receipts import Receipt

TEXT = "7 1700000000000 60000 0 0 broker-a 3 9"


def test_a_receipt_is_text_and_back() -> None:
    found = Receipt.parse(TEXT)
    assert found == Receipt(7, 1_700_000_000_000, 60_000, 0, "0", "broker-a", 3, 9)
    assert found.text() == TEXT
    whole = TEXT.rpartition(" ")[0]
    assert Receipt.parse(whole).text() == whole


@pytest.mark.parametrize(
    "text",
    ["", " ", "7", "7 1 1 0 0 b", "x 1 1 0 0 b 0 0", "-1 1 1 0 0 b 0 0", f"{2**63} 1 1 0 0 b 0 0",
     "7 -1 1 0 0 b 0 0", "7 1 1 0 0 b x 0", "7 1 1 0 0 b 0 x", "9" * 5000 + " 1 1 0 0 b 0 0"],
)  # fmt: skip
def test_other_texts_are_errors(text: str) -> None:
    with pytest.raises(BadHeader):
        Receipt.parse(text)
