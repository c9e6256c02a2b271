"""The document that outlives a killed supervisor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from silomq.supervisor.handover import HandedWorld, write_all
from silomq.supervisor.keeping import Keeps, KeptStore, encode, read_state

if TYPE_CHECKING:
    from collections.abc import Iterator


def state(sequence: int) -> KeptStore:
    world: dict[str, Any] = {"folder": "/f", "store_name": "s", "store_id": 1, "listener": 0}
    world |= {"settings": {}, "report": {}, "supervisor": 1, "limit": 1024, "inherited": 3}
    return KeptStore(
        sequence, 2, 5, {}, HandedWorld(**world, mail=[], sessions=[]), keys=[], names=["a", "b"]
    )


@pytest.fixture
def pages() -> Iterator[list[int]]:
    found = [os.memfd_create(f"test-{number}") for number in range(2)]
    yield found
    for page in found:
        os.close(page)


def test_the_newest_document_counts(pages: list[int]) -> None:
    for number in (1, 2, 3):
        page = pages[number % 2]
        os.ftruncate(page, 0)
        write_all(page, encode(state(number)))
    found = read_state(pages)
    assert found is not None
    assert found == state(3)


@pytest.mark.parametrize("kept", [0, 4, 8, 9, 100])
def test_one_that_is_cut_off_does_not(pages: list[int], kept: int) -> None:
    """The supervisor was killed while it wrote it."""
    write_all(pages[1], encode(state(1)))
    write_all(pages[0], encode(state(2))[:kept])
    found = read_state(pages)
    assert found is not None
    assert found.sequence == 1


def test_damage_of_any_byte_is_seen(pages: list[int]) -> None:
    data = bytearray(encode(state(1)))
    for at in range(len(data)):
        data[at] ^= 1
        write_all(pages[0], bytes(data))
        assert read_state(pages[:1]) is None, at
        data[at] ^= 1


def test_another_release_says_nothing(pages: list[int]) -> None:
    write_all(pages[0], encode(state(1)).replace(b"sequence", b"sequenca"))
    assert read_state(pages) is None
    assert read_state([]) is None


def test_new_code_gets_what_is_stored(pages: list[int]) -> None:
    write_all(pages[0], encode(state(7)))
    found = Keeps.handed(pages)
    assert found == Keeps(tuple(pages), frozenset("ab"), resumed=2, sequence=7)
    assert Keeps.handed([]) == Keeps()
