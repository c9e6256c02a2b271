"""What tests of groups share: a topic of its own for each, in the module's `store`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from e2e.groups.members import QUEUES

from silomq import Admin

if TYPE_CHECKING:
    from support.harness import StoreProcess


@pytest.fixture
def topic(store: StoreProcess, topic: str) -> str:
    """A new topic with QUEUES queues."""
    with Admin(store.path) as admin:
        admin.create_topic(topic, QUEUES)
    return topic


@pytest.fixture
def group(topic: str) -> str:
    return f"g-{topic}"
