"""Makes damage of many kinds in a stopped store's files, at random places."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Final

from support import golden_stores

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ENTRY: Final = 20


class Damage:
    """The files of a store in `path`, and what was done to them."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.path, self.rng = path, rng
        self.done: list[str] = []

    def some(self, most: int) -> None:
        """Does up to `most` kinds of damage."""
        for _ in range(self.rng.randint(1, most)):
            kind = self.rng.choice(KINDS)
            kind(self)
            self.done.append(kind.__name__)

    def file(self, *folders: str) -> Path:
        """A file below one of the folders, each as likely."""
        folder = self.path / self.rng.choice(folders)
        return self.rng.choice(sorted(p for p in folder.rglob("*") if p.is_file()))

    def change(self, file: Path, at: int, data: bytes) -> None:
        """Overwrites a part of a file, as far as it reaches."""
        whole = bytearray(file.read_bytes())
        data = data[: max(0, len(whole) - at)]
        whole[at : at + len(data)] = data
        file.write_bytes(whole)

    def place(self, file: Path, size: int = 1) -> int:
        """A position among the bytes of a file that are not zero, if it has any."""
        data = file.read_bytes()
        used = len(data.rstrip(b"\0"))
        return self.rng.randrange(max(1, min(len(data) - size, used)))


def flip_a_bit(d: Damage) -> None:
    """Anywhere."""
    file = d.file("commitlog", "consumequeue", "index")
    at = d.place(file)
    d.change(file, at, bytes([file.read_bytes()[at] ^ 1 << d.rng.randrange(8)]))


def flip_in_a_head(d: Damage) -> None:
    """In the fixed part of a record."""
    file, starts = _records(d)
    at = d.rng.choice(starts) + d.rng.randrange(88)
    d.change(file, at, bytes([file.read_bytes()[at] ^ 1 << d.rng.randrange(8)]))


def zero_a_range(d: Damage) -> None:
    """As a lost sector or page."""
    file = d.file("commitlog", "consumequeue", "index")
    d.change(file, d.place(file), bytes(d.rng.choice([20, 512, 4096])))


def zero_a_head(d: Damage) -> None:
    """As a record of which the disk got only the rest."""
    file, starts = _records(d)
    d.change(file, d.rng.choice(starts), bytes(d.rng.choice([8, 88])))


def write_noise(d: Damage) -> None:
    """As bytes of another file."""
    file = d.file("commitlog", "consumequeue", "index")
    d.change(file, d.place(file), d.rng.randbytes(d.rng.choice([4, 20, 500])))


def cut_a_tail(d: Damage) -> None:
    """Zeros up to a file's end."""
    file = d.file("commitlog", "consumequeue", "index")
    d.change(file, d.place(file), bytes(1 << 20))


def swap_two_entries(d: Damage) -> None:
    """In a queue file or among an index file's entries."""
    file = d.file("consumequeue", "index")
    skip = 40 + 4 * golden_stores.INDEX_SLOTS if file.parent.name == "index" else 0
    data = file.read_bytes()
    one, other = (skip + _ENTRY * d.rng.randrange((len(data) - skip) // _ENTRY) for _ in "ab")
    d.change(file, one, data[other : other + _ENTRY])
    d.change(file, other, data[one : one + _ENTRY])


def copy_a_record(d: Damage) -> None:
    """A record in the place of another one."""
    file, starts = _records(d)
    data = file.read_bytes()
    at = d.rng.choice(starts)
    size = int.from_bytes(data[at : at + 4], "big")
    d.change(file, d.rng.choice(starts), data[at : at + size])


def close_early(d: Damage) -> None:
    """An end-of-file record in the place of a record."""
    file, starts = _records(d)
    at = d.rng.choice(starts)
    left = len(file.read_bytes()) - at - d.rng.choice([0, 0, 1])
    d.change(file, at, left.to_bytes(4, "big") + b"\xcb\xd4\x31\x94")


def lose_a_file(d: Damage) -> None:
    """Any but the only log file."""
    file = d.file("commitlog", "consumequeue", "consumequeue", "index")
    if len(list((d.path / "index").iterdir())) > 1 or file.parent.name != "index":
        file.unlink()


def lose_a_queue(d: Damage) -> None:
    """With its folder."""
    shutil.rmtree(d.file("consumequeue").parent)


def change_how_it_ended(d: Damage) -> None:
    """A store that was killed looks as if it was stopped, or the other way round."""
    abort = d.path / "abort"
    if abort.exists():
        abort.unlink()
    else:
        abort.touch()


def _records(d: Damage) -> tuple[Path, list[int]]:
    """A log file and the positions where records begin in it (at its beginning, if at none)."""
    file = d.file("commitlog")
    data, at, starts = file.read_bytes(), 0, [0]
    while data[at + 4 : at + 7] == b"\xda\xa3\x20":
        starts.append(at)
        at += max(1, int.from_bytes(data[at : at + 4], "big"))
    return file, starts


KINDS: Final[tuple[Callable[[Damage], None], ...]] = (
    flip_a_bit,
    flip_in_a_head,
    zero_a_range,
    zero_a_head,
    write_noise,
    cut_a_tail,
    swap_two_entries,
    copy_a_record,
    close_early,
    lose_a_file,
    lose_a_queue,
    change_how_it_ended,
)
