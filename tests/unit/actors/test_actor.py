"""An actor writes its own words alone."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.children import forked

from silomq.actors.actor import SHORTAGE, Actor, World
from silomq.conf.settings import Settings
from silomq.shm.control import CONTROL, SIZE, WRITERS, Control
from silomq.shm.history import SEGMENT_SIZE
from silomq.shm.ownership import STARTUP, NotTheWriter
from silomq.store.disk.paths import StoreFolders
from silomq.store.topics.table_layout import Plan
from silomq.store.topics.topic_table import TopicTable
from silomq.supervisor.processes import CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """What an actor gets from its supervisor, without the channels to other processes."""
    plan = Plan(max_topics=2, max_queues=4, max_sessions=2)
    control, table = bytearray(SIZE), bytearray(plan.size)
    Control(control, STARTUP).create(1)
    TopicTable.create(table, plan).add_topic("t", write_nums=1, read_nums=1, perm=6)
    nothing = cast("Any", None)
    with StoreFolders(tmp_path, create=True) as folders:
        yield World(
            settings=Settings(store_path=tmp_path),
            store_name="test",
            store_id=1,
            control_memory=cast("Any", control),
            table_memory=cast("Any", table),
            metrics_memory=cast("Any", bytearray(SEGMENT_SIZE)),
            folders=folders,
            allocate_semaphore=nothing,
            gates={},
            listener=nothing,
            append_mail=nothing,
            reput_mail=nothing,
            flush_mail=nothing,
            registry_mail=nothing,
        )


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (BlockingIOError(errno.EAGAIN, "the supervisor does not read its mail"), 1),
        (OSError(errno.EMFILE, "too many open files"), SHORTAGE),
        (MemoryError(), SHORTAGE),
    ],
    ids=repr,
)
def test_mail_that_nobody_reads_is_no_shortage(
    problem: Exception, status: int, world: World
) -> None:
    """After a shortage an actor starts again soon, for ever; after a failure less and less."""

    class Failing(Actor):
        name = "clean"

        def _pass_gate(self) -> None:
            raise problem

    with forked(lambda: str(Failing(world).live(-1))) as (_, ended):
        assert ended() == str(status)


@pytest.mark.parametrize("name", CLASSES)
def test_an_actor_is_given_its_own_words_alone(name: str, world: World) -> None:
    assert world.control.own("wrote") is not None  # before the first actor
    actor = CLASSES[name](world)
    actor.beat()
    assert actor.control is world.control
    assert actor.control.beat(name).load() > 0
    for field in set(CONTROL) - {"heartbeat"}:
        writer = WRITERS["control"].get(field, STARTUP)
        if writer == name:
            actor.control.own(field)
        else:
            with pytest.raises(NotTheWriter, match=f"{field} is written by {writer} alone"):
                actor.control.own(field)
    for field, writer in {"next": "append", "max_offset": "reput", "min_offset": "clean"}.items():
        if writer == name:
            world.table.own_queue_word(0, field)
        else:
            with pytest.raises(NotTheWriter, match=f"alone, and {name} asked"):
                world.table.own_queue_word(0, field)
