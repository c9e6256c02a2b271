"""Deleted topics: what dispatch, a start and the record of deletions make of their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.starts import start
from support.store_files import Store, message
from support.topics_json import with_topic

from silomq.store.config import topics as topics_json
from silomq.store.config.topics import TopicConfig, TopicTable
from silomq.store.disk.files import Folder
from silomq.store.errors import Corrupt
from silomq.store.topics.deletions import Deletion, Deletions, remove_queues

if TYPE_CHECKING:
    from pathlib import Path

TWO = "topic-two"


def entries(store: Store) -> dict[str, list[int]]:
    """Topic -> log offsets in the entries of its queue 0, 0 where none was written."""
    found = {}
    for (topic, _), data in store.queue_bytes().items():
        offsets = [int.from_bytes(data[at : at + 8], "big") for at in range(0, 200, 20)]
        while offsets and not offsets[-1]:
            offsets.pop()
        found[topic] = offsets
    return found


def test_records_of_before_a_deletion_get_no_entry(tmp_path: Path) -> None:
    store = Store(tmp_path, [message(t) for t in (TWO, "a", TWO, "a", TWO)], topics={TWO: 1})
    store.table.add_topic("a", write_nums=1, read_nums=1, perm=6, since=store.ends[2])
    store.dispatch()
    ends = store.ends
    assert entries(store) == {TWO: [0, ends[2], ends[4]], "a": [0, ends[3]]}
    assert store.index_bytes() == store.expected_index()
    assert store.control.load("dispatch_count") == 4
    assert store.table.queue_word(store.table.slot("a", 0), "max_offset").load() == 2


def test_a_record_may_be_passed_over(tmp_path: Path) -> None:
    store = Store(tmp_path, [message(t) for t in (TWO, "a", "a", TWO)], topics={TWO: 1})
    seen: list[tuple[str, int, int]] = []

    def unknown(topic: str, queue_id: int, offset: int) -> bool:
        seen.append((topic, queue_id, offset))
        return False

    store.dispatch(None, store.dispatching(unknown_queue=unknown))
    assert seen == [("a", 0, store.ends[1]), ("a", 0, store.ends[2])]
    assert entries(store) == {TWO: [0, store.ends[3]]}
    assert store.index_bytes() == store.expected_index()


def decided(store: Store, **topics: Deletion) -> None:
    Deletions(store.folders.ours, dict(topics)).write()


@pytest.mark.parametrize("dispatched", [False, True])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_a_start_finishes_a_deletion(
    tmp_path: Path, *, dispatched: bool, done: bool, listed: bool
) -> None:
    store = Store(tmp_path, [message(t) for t in ("a", TWO, "a")])
    if dispatched:
        store.dispatch()
    path = f"{store.folders.config.path}/topics.json"
    if listed:
        topics_json.save(path, with_topic(TopicTable(), TopicConfig("a", 3, 3), 1))
    decided(store, a=Deletion(store.ends[3], 2, done=done))
    report = start(store, tmp_path)
    # Listed again after a deletion that was done: a new topic, still without a message.
    assert (store.table.find("a") is not None) == (listed and done)
    assert ("a" in topics_json.load(path)[0].topics) == (listed and done)
    assert entries(store) == {TWO: [store.ends[1]]}
    assert store.index_bytes() == store.expected_index()
    assert any("deletion was finished" in note for note in report.notes) == (not done)
    assert Deletions.read(store.folders.ours).topics == {"a": Deletion(store.ends[3], 2, done=True)}


def test_a_log_that_lost_its_end_moves_the_deletion(tmp_path: Path) -> None:
    store = Store(tmp_path, [message(t) for t in ("a", TWO, "a")])
    decided(store, a=Deletion(store.ends[3] + 5000, 2, done=True))
    start(store, tmp_path)
    assert Deletions.read(store.folders.ours).below("a") == store.ends[3]
    assert entries(store) == {TWO: [store.ends[1]]}


def test_records_behind_a_deletion_make_the_topic_again(tmp_path: Path) -> None:
    store = Store(tmp_path, [message(t) for t in ("a", TWO, "a")])
    decided(store, a=Deletion(store.ends[2], 1, done=True))
    start(store, tmp_path)
    assert entries(store)["a"] == [0, store.ends[2]]
    found = store.table.find("a")
    assert found is not None
    assert store.table.queue_word(found.slots[0], "since").load() == store.ends[2]


def test_folders_are_removed_but_not_what_is_foreign(tmp_path: Path) -> None:
    root = Folder.open(tmp_path / "consumequeue", create=True)
    for name in ("t/0/00", "t/1/00", "kept/0/00", "x/0/00", "x/notes"):
        path = tmp_path / "consumequeue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    for topic in ("t", "t", "x", "never"):
        remove_queues(root, topic)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"consumequeue/kept/0/00", "consumequeue/x/notes"}
    assert root.names() == ["kept", "x"]


def test_the_record_of_deletions(tmp_path: Path) -> None:
    folder = Folder.open(tmp_path)
    found = Deletions.read(folder)
    assert (found.topics, found.entries, found.below("t")) == ({}, 0, 0)
    found.decide("t", 700, 3)
    assert Deletions.read(folder).topics == {"t": Deletion(700, 3)}
    found.finish("t", 5)
    found.decide("t", 900, 2)
    again = Deletions.read(folder)
    assert (again.topics, again.entries, again.below("t")) == ({"t": Deletion(900, 2)}, 5, 900)
    (tmp_path / "deleted").write_text("{")  # the backup is the state before the last change
    again = Deletions.read(folder)
    assert (again.topics, again.entries) == ({"t": Deletion(700, 3, done=True)}, 5)
    assert "its backup was loaded" in again.problem
    (tmp_path / "deleted.bak").write_text('{"topics":[1]}')
    with pytest.raises(Corrupt, match="deleted, offset 0: the file is unreadable"):
        Deletions.read(folder)


BAD = (
    "[]", '{"below":"x"}',
    '{"below":-1,"entries":0}', '{"below":1}', '{"below":1.5,"entries":0}',
       '{"below":9223372036854775808,"entries":0}', '{"below":1,"entries":0,"done":1}')  # fmt: skip


@pytest.mark.parametrize("deletion", BAD)
def test_a_deletion_that_cannot_be_right_costs_no_other(tmp_path: Path, deletion: str) -> None:
    text = f'{{"topics":{{"a/b":{{}},"t":{deletion},"u":{{"below":7,"entries":1}}}},"entries":-1}}'
    (tmp_path / "deleted").write_text(text)
    folder = Folder.open(tmp_path)
    found = Deletions.read(folder)
    assert (found.topics, found.entries) == ({"u": Deletion(7, 1)}, 0)
    assert "'t'" in found.problem
    (tmp_path / "deleted.bak").write_text('{"topics":{"t":{"below":5,"entries":2}},"entries":9}')
    found = Deletions.read(folder)
    assert (found.topics["t"], found.entries) == (Deletion(5, 2), 9)
    found.decide("v", 100, 0)
    (kept,) = tmp_path.glob("deleted.bad-*")
    assert kept.read_text() == text
    assert Deletions.read(folder).topics.keys() == {"t", "u", "v"}
    assert Deletions.read(folder).problem == ""
