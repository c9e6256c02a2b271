"""Sealed memory keeps its size, whatever its client does."""

from __future__ import annotations

import os

import pytest

from silomq.shm import sealed
from silomq.shm._memory import Mapping


def test_it_is_empty_memory_of_the_size_that_was_asked_for() -> None:
    fd = sealed.create("test", 8192)
    try:
        assert bytes(Mapping(fd, 0, 8192)) == bytes(8192)
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("size", [0, 4096, 16384])
def test_its_size_stays(size: int) -> None:
    fd = sealed.create("test", 8192)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
        assert os.fstat(fd).st_size == 8192
    finally:
        os.close(fd)
