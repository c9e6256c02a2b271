"""A producer's part that sends, with a store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.memory_store import MemoryStore, connect

from silomq.client.producing._sender import Sender, session_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    found = MemoryStore()
    yield found
    found.close()


@pytest.fixture
def sender(store: MemoryStore) -> Iterator[Sender]:
    found = connect(store)
    yield found
    session_of(found).close()
