"""The file that says who made topics and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from silomq.store.disk.files import Folder
from silomq.store.topics import makers
from silomq.store.topics.makers import FILE_NAME, Line, Makers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    with Folder.open(tmp_path) as found:
        yield found


def test_nothing_is_known_without_a_file(folder: Folder) -> None:
    assert makers.read(folder) == Makers()


def test_the_last_line_of_a_name_counts(folder: Folder) -> None:
    for line in (
        Line(7, topic="a", queues=4),
        Line(8, group="g"),
        Line(7, topic="b", queues=1),
        Line(9, topic="a", queues=16),
        Line(-1, topic="b"),
        Line(8, group="h"),
        Line(-1, group="h"),
    ):
        makers.add(folder, line)
    found = makers.read(folder)
    assert found == Makers({"a": 9}, {"a": 16}, {"g": 8}, lines=7)
    makers.replace(folder, [Line(9, topic="a", queues=16)])
    assert makers.read(folder) == Makers({"a": 9}, {"a": 16}, {}, lines=1)
    makers.add(folder, Line(9, topic="c", queues=2))
    assert makers.read(folder).queues == {"a": 16, "c": 2}


@pytest.mark.parametrize(
    "bad",
    [
        b'{"uid":7,"topic":"b","queu',
        b"\xff",
        b"{}",
        b'{"uid":-2,"topic":"b"}',
        b"[1]",
        bytes(9),
        b'{"uid":7,"topic":"b","queues":-1}',
        b'{"uid":7,"topic":5}',
        b'{"uid":4294967296}',
    ],
)
def test_what_is_no_line_is_left_out(folder: Folder, tmp_path: Path, bad: bytes) -> None:
    makers.add(folder, Line(7, topic="a", queues=4))
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b"\n" + bad)
    makers.add(folder, Line(7, topic="c", queues=2))
    assert makers.read(folder).queues == {"a": 4, "c": 2}


def test_a_file_of_absurd_size_is_left_alone(folder: Folder, tmp_path: Path) -> None:
    with (tmp_path / FILE_NAME).open("wb") as file:
        file.truncate((1 << 30) + 1)
    assert makers.read(folder) == Makers()
