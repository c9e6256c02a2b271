"""The store that publishes a word and the loads that observe it carry the same tag."""

from __future__ import annotations

import re
from collections import defaultdict

from tidy.sources import ROOT, sources

#: `SYNC: ring-tail publish` after a store with release order, `... observe` after the load.
TAG = re.compile(r"SYNC: *([^\s]+) *(\w*)")


def _tags() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sources(".py", ".pyx", ".pxd", ".h"):
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            for tag, end in TAG.findall(line):
                found[tag][end].append(f"{path}:{number}")
    return found


def test_tags_come_in_pairs() -> None:
    lonely = {
        tag: dict(ends) for tag, ends in _tags().items() if not {"publish", "observe"} <= set(ends)
    }
    assert not lonely, "a tag needs a publish and an observe"


def test_tags_are_well_formed() -> None:
    odd = [
        (tag, end, places)
        for tag, ends in _tags().items()
        for end, places in ends.items()
        if end not in {"publish", "observe"} or not re.fullmatch(r"[a-z][a-z0-9-]*", tag)
    ]
    assert not odd, "write `SYNC: some-tag publish` or `SYNC: some-tag observe`"
