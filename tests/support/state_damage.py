"""Damage of files: a generator for state that a disk, an editor or another program has spoilt."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

from silomq.store.config.fastjson import dumps, loads

if TYPE_CHECKING:
    import random
    from pathlib import Path

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, -2, 2**31, 2**63 - 1, 2**63, 2**64, 10**30, 1.5, "", "x", "7", "\ud800",
    "\0", [], {}, [[]], {"a": {"b": [1]}}, {"0": 0}, ["t", 0], "x" * 5000,
)  # fmt: skip
NAMES = ("", "x", "a/b", "..", "ü", "x" * 300, "t@g", "@", "%", "0", "-1", "99999999999", "\u2028")


def damage(path: Path, numbers: random.Random) -> str:
    """Damages a file in one way; the way in a word."""
    kinds = [_empty, _cut, _zeros, _noise, _flip, _doubled, _swap, _folder, _fifo, _link, _gone]
    text = path.suffix in (".json", ".bak") or path.name in ("deleted", "layout")
    if text:
        kinds += [_bom, _deep, _no_object] + [_change] * 14
    kind = numbers.choice(kinds)
    kind(path, numbers)
    return kind.__name__[1:]


def _empty(path: Path, _numbers: random.Random) -> None:
    path.write_bytes(b"")


def _cut(path: Path, numbers: random.Random) -> None:
    os.truncate(path, numbers.randrange(max(1, path.stat().st_size)))


def _zeros(path: Path, _numbers: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _noise(path: Path, numbers: random.Random) -> None:
    path.write_bytes(numbers.randbytes(min(8192, path.stat().st_size)))


def _flip(path: Path, numbers: random.Random) -> None:
    data = bytearray(path.read_bytes() or b"\0")
    for _ in range(numbers.choice((1, 1, 3, 40))):
        data[numbers.randrange(min(len(data), 4096))] ^= 1 << numbers.randrange(8)
    path.write_bytes(data)


def _doubled(path: Path, _numbers: random.Random) -> None:
    path.write_bytes(path.read_bytes() * 2)


def _swap(path: Path, numbers: random.Random) -> None:
    """The contents of another file of that folder."""
    others = sorted(each for each in path.parent.iterdir() if each.is_file())
    path.write_bytes(numbers.choice(others).read_bytes())


def _folder(path: Path, _numbers: random.Random) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)


def _fifo(path: Path, _numbers: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path, _numbers: random.Random) -> None:
    target = path.with_name(f"{path.name}-elsewhere")
    shutil.move(path, target)
    path.symlink_to(target)


def _gone(path: Path, _numbers: random.Random) -> None:
    path.unlink()


def _bom(path: Path, _numbers: random.Random) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


def _deep(path: Path, numbers: random.Random) -> None:
    depth = numbers.choice((60, 500, 100_000))
    path.write_text('{"topics":' + "[" * depth + "]" * depth + "}")


def _no_object(path: Path, numbers: random.Random) -> None:
    path.write_text(numbers.choice(("[]", "7", "null", '"x"', "NaN", "{]", "{" * 50)))


def _change(path: Path, numbers: random.Random) -> None:
    """Another value, name, or entry somewhere in the JSON, or an entry that is there twice."""
    try:
        root: Any = loads(path.read_text())
    except ValueError:
        return
    places = list(_places(root))
    if not places:
        return
    for _ in range(numbers.choice((1, 1, 1, 4))):
        holder, key = numbers.choice(places)
        change = numbers.randrange(4)
        if change == 0 and isinstance(holder, dict):
            holder[numbers.choice(NAMES)] = numbers.choice(VALUES)
        elif change == 1 and isinstance(holder, dict) and key in holder:
            holder[numbers.choice(NAMES)] = holder[key]
        else:
            holder[key] = numbers.choice(VALUES)
    if numbers.random() < 0.3:
        path.write_text(json.dumps(root))
    else:
        path.write_bytes(dumps(root).encode("utf-8", "surrogatepass"))


def _places(value: Any) -> Any:
    """Every (holder, key) of a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key
            yield from _places(inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value, index
            yield from _places(inner)
