"""What tests of groups share: a topic of its own for each, in the module's `store`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from e2e.grouping import QUEUES

from silomq import Admin

if TYPE_CHECKING:
    from support.harness import StoreProcess

_names = itertools.count()


@pytest.fixture
def topic(store: StoreProcess) -> str:
    """A new topic with QUEUES queues."""
    name = f"topic{next(_names)}"
    with Admin(store.path) as admin:
        admin.create_topic(name, QUEUES)
    return name
