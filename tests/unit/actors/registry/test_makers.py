"""How many topics and groups one user may make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from silomq.actors.registry.access import Peer
from silomq.actors.registry.makers import Makers, group_of
from silomq.actors.registry.refusals import Refused
from silomq.shm.protocol.requests import AskGroups, Join, OpenGroup, Start
from silomq.store.disk.files import Folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.shm.protocol.requests import AnyRequest

USER = Peer(7, allowed=True, owner=False, admin=False)
OTHER = Peer(8, allowed=True, owner=False, admin=False)
ROOT = Peer(0, allowed=True, owner=True, admin=True)


class Rig:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.said: list[str] = []

    def makers(self, peer: Peer = USER, **most: int) -> Makers:
        settings: Any = SimpleNamespace(
            **{"max_topics_per_uid": 3, "max_groups_per_uid": 2, **most}
        )
        logger = SimpleNamespace(error=lambda what, **_: self.said.append(what))
        found = Makers(settings, self.folder, logger)
        found.peer = peer
        return found


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with Folder.open(tmp_path) as folder:
        yield Rig(folder)


def make(makers: Makers, *names: str) -> None:
    for name in names:
        makers.check_topic(name)
        makers.made_topic(name, 4)


def test_a_user_makes_so_many_topics_and_no_more(rig: Rig) -> None:
    makers = rig.makers()
    make(makers, "a", "%RETRY%g", "%DLQ%g")
    with pytest.raises(Refused, match=r"topic d: user 7 has made 3 topics, .* max_topics_per_uid"):
        make(makers, "d")
    make(makers, "RMQ_SYS_TRANS_HALF_TOPIC")  # the store's own
    makers.peer = OTHER
    make(makers, "d")
    makers.peer = ROOT
    make(makers, *"efghi")
    # The next registry knows them.
    makers = rig.makers()
    with pytest.raises(Refused):
        make(makers, "j")
    makers.lost_topic("a")
    makers.lost_topic("never made")
    make(makers, "j")
    make(rig.makers(max_topics_per_uid=0), *"klmno")


def test_a_topic_of_a_name_that_another_had_is_the_new_makers(rig: Rig) -> None:
    makers = rig.makers()
    make(makers, "a")
    makers.peer = OTHER
    make(makers, "a")
    assert (makers.topics[7], makers.topics[8]) == (0, 1)


def test_a_user_makes_so_many_groups_and_no_more(rig: Rig) -> None:
    makers = rig.makers()
    for name in "gh":
        makers.check_group(name)
        makers.made_group(name)
    with pytest.raises(Refused, match=r"group i: user 7 has made 2 groups, .* max_groups_per_uid"):
        makers.check_group("i")
    assert makers.knows_group("g")
    makers.lost_group("g")
    assert not makers.knows_group("g")
    rig.makers().check_group("i")
    rig.makers(max_groups_per_uid=0).check_group("i")


def test_the_file_does_not_grow_for_ever(rig: Rig) -> None:
    makers = rig.makers()
    make(makers, "mine")
    makers.peer = ROOT
    for _ in range(1100):
        make(makers, "t")
    size = rig.folder.size("makers")
    makers.tidy()
    assert rig.folder.size("makers") < size / 100
    assert rig.makers().topics[7] == 1
    make(makers, "u")
    assert rig.makers().topics[7] == 1


def test_a_file_that_cannot_be_written_stops_nobody(rig: Rig, tmp_path: Path) -> None:
    makers = rig.makers()
    (tmp_path / "makers").mkdir()
    make(makers, "a")
    makers.made_group("g")
    assert (makers.topics[7], makers.groups[7]) == (1, 1)
    assert rig.said == ["cannot note who made a topic or group"] * 2


@pytest.mark.parametrize(
    ("request_", "group"),
    [
        (Join("g", "clustering", {}, Start("earliest")), "g"),
        (Join("g", "broadcasting", {}, Start("earliest")), "g"),
        (Join("g", "broadcasting", {}, Start("earliest"), instance="i"), "%BROADCAST%i%g"),
        (OpenGroup("g", make=True), "g"),
        (OpenGroup("g", make=False), ""),
        (AskGroups(""), ""),
    ],
)
def test_what_makes_a_group(request_: AnyRequest, group: str) -> None:
    assert group_of(request_) == group
