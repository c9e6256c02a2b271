"""The messages that are made ready: sizes, turns of topics and tags, bytes that are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from silomq.bench.harness.load.bodies import Messages
from silomq.bench.harness.load.protocol import Order, Sizes

if TYPE_CHECKING:
    from pathlib import Path


def order(folder: Path, sizes: Sizes, **more: object) -> Order:
    (folder / "payload").write_bytes(bytes(range(256)) * 64)
    return Order(
        "produce", "none", {}, 0, 1, [f"t{n}" for n in range(5000)], 4, 1, 0, 1,
        sizes=sizes, payload=str(folder / "payload"), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_each_topic_and_tag_has_its_turn(tmp_path: Path) -> None:
    made = Messages(order(tmp_path, Sizes([16, 64], [1, 3]), tags=["a", "b", "c"], keys=7))
    assert {one.topic for one in made.ready} == {f"t{n}" for n in range(5000)}
    tags = [one.tag for one in made.ready]
    assert tags.count("a") == tags.count("b") == tags.count("c")
    assert {one.key for one in made.ready} == {f"key{n}" for n in range(7)}
    sizes = [8 + len(one.tail) for one in made.ready]
    assert set(sizes) == {16, 64}
    assert 0.7 < sizes.count(64) / len(sizes) < 0.8


def test_bytes_are_those_of_the_messages_sent(tmp_path: Path) -> None:
    made = Messages(order(tmp_path, Sizes([16, 100])))
    sizes = [8 + len(one.tail) for one in made.ready]
    count = len(sizes)
    assert made.size_of(3) == sum(sizes[:3])
    assert made.size_of(count) == sum(sizes)
    assert made.size_of(count - 3) == sum(sizes[3:])
    assert made.size_of(0) == 0
