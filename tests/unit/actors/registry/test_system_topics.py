"""The topic of replies: all its queues, and the cluster that requests name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from support.small_tables import PLAN

from silomq.actors.registry.refusals import Refused
from silomq.actors.registry.system_topics import SystemTopics
from silomq.shm.control import SIZE, Control
from silomq.shm.ownership import STARTUP
from silomq.shm.protocol.requests import Alter, Create, Open, OpenReplies
from silomq.store.config.topics import TopicConfig
from silomq.store.disk.paths import StoreFolders
from silomq.store.names import REPLIES_TOPIC
from silomq.store.topics.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from silomq.actors.actor import World
    from silomq.shm.protocol.answers import OpenedReplies


@pytest.fixture
def topics(tmp_path: Path) -> Iterator[SystemTopics]:
    control = Control(bytearray(SIZE), STARTUP)
    control.create(1)
    settings = SimpleNamespace(
        auto_create_topic_enable=True,
        default_topic_queue_nums=1,
        max_topics_per_uid=0,
        max_groups_per_uid=0,
        max_queues=PLAN.max_queues,
        max_sessions=PLAN.max_sessions,
        message_delay_level=(1,),
    )
    table = TopicTable.create(bytearray(PLAN.size), PLAN)
    with StoreFolders(tmp_path, create=True) as folders:
        world = SimpleNamespace(settings=settings, table=table, control=control, folders=folders)
        yield SystemTopics(cast("World", world), None, lambda: None)


def opened(topics: SystemTopics) -> OpenedReplies:
    return cast("OpenedReplies", topics.serve(0, OpenReplies()))


def test_a_store_of_its_own_has_the_usual_cluster(topics: SystemTopics) -> None:
    found = opened(topics)
    assert found.cluster == "DefaultCluster"
    assert topics.table.find("DefaultCluster_REPLY_TOPIC") is not None
    assert opened(topics) == found


def test_the_broker_s_topic_names_the_cluster(topics: SystemTopics) -> None:
    topics.serve(None, Create("first_REPLY_TOPIC", 1))
    assert opened(topics).cluster == "first"
    topics.serve(None, Create("second_REPLY_TOPIC", 1))
    assert opened(topics).cluster == "second"
    topics.file.configs.pop("second_REPLY_TOPIC")
    assert opened(topics).cluster == "first"


def test_a_topic_that_came_back_from_the_log_gets_its_queues(topics: SystemTopics) -> None:
    topics._add(TopicConfig(REPLIES_TOPIC, 2, 2))
    found = opened(topics)
    assert len(set(found.slots)) == min(9, PLAN.max_queues)
    assert opened(topics) == found


def test_nobody_opens_it_in_another_way(topics: SystemTopics) -> None:
    opened(topics)
    with pytest.raises(Refused, match="own"):
        topics.serve(0, Open(REPLIES_TOPIC, write=True))
    with pytest.raises(Refused, match="cannot be changed"):
        topics.serve(0, Alter(REPLIES_TOPIC, 1, 1))
