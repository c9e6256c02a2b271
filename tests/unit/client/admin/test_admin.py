"""What a user finds on `Admin`."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from silomq import Admin
from silomq.client.admin.group_admin import GroupInfo, GroupState, MemberInfo, QueueProgress
from silomq.client.admin.topic_info import QueueInfo, TopicInfo, TopicStatus

PUBLIC = {
    "clean",
    "close",
    "control",
    "create_topic",
    "delete_group",
    "delete_topic",
    "figures",
    "group",
    "groups",
    "reload",
    "reload_code",
    "reset_offset",
    "restart",
    "status",
    "topic",
    "topics",
    "update_topic",
}
RECORDS = (TopicInfo, QueueInfo, TopicStatus, GroupInfo, GroupState, MemberInfo, QueueProgress)


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_dir_shows_what_a_user_may_call() -> None:
    assert public(Admin) == PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_method_says_what_it_does(name: str) -> None:
    assert inspect.getdoc(getattr(Admin, name))


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: str(kind.__name__))
def test_every_field_of_an_answer_is_explained(kind: Any) -> None:
    """In the words of its class, or by a name that needs none."""
    plain = {"topic", "name", "queue_id", "queues", "members", "session", "model", "instance"}
    text = " ".join((base.__doc__ or "") for base in kind.__mro__ if base is not object)
    for field in dataclasses.fields(kind):
        assert field.name in plain or f"`{field.name}`" in text, field.name
