"""Lost and doubled messages are found by the numbers in their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silomq.bench.harness.load.numbers import Numbers, lost_and_doubled
from silomq.bench.harness.load.protocol import Order, Role

if TYPE_CHECKING:
    from pathlib import Path


def test_lost_and_doubled(tmp_path: Path) -> None:
    read: list[bytes] = []
    for role, index, numbers in (
        ("produce", 0, range(10)),
        ("produce", 1, range(5)),
        ("consume", 0, (0, 1, 2, 3, 3, 4, 6, 7, 8, 9)),
    ):
        kind: Role = "produce" if role == "produce" else "consume"
        order = Order(kind, "none", {}, index, 2, ["a"], 1, 1, 0, 1, check=str(tmp_path))
        made = Numbers(order)
        for n in numbers:
            body, number = made.numbered(bytes(32))
            assert number == index << 48 | (
                len(read) if role == "produce" and index == 0 else number
            )
            if role == "produce":
                read.append(body)
                made.note(number)
            else:
                made.read(read[n])
        made.write()
    sent = list(tmp_path.glob("produce-*"))
    # Number 5 of the first, and all of the second; number 3 came twice.
    assert lost_and_doubled(sent, tmp_path.glob("consume-*")) == (6, 1)
    assert lost_and_doubled(sent, []) == (15, 0)
